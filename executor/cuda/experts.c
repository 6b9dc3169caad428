#include "executor/cuda/cuda.h"

#include <assert.h>

// The choice of experts, and from tokens to their rows and back.

static enum route_score score_of(enum function function)
{
    switch (function) {
    case FUNCTION_ROUTE_SOFTMAX:
        return ROUTE_SOFTMAX;
    case FUNCTION_ROUTE_SIGMOID_TOP_K:
        return ROUTE_SIGMOID_SHARE;
    case FUNCTION_ROUTE_SIGMOID:
        return ROUTE_SIGMOID;
    case FUNCTION_ROUTE_NEAR_BEST:
        return ROUTE_NEAR_BEST;
    default:
        return ROUTE_CHOSEN_SOFTMAX;
    }
}

static struct route_args route_of(const struct run *run, const struct kernel_array *logits)
{
    const struct op *op = run->call->op;
    int64_t count = array_last(logits);
    return (struct route_args){.tokens = count > 0 ? array_elements(logits) / count : 0,
                               .count = (int)count,
                               .top_k = op->top_k,
                               .group_count = op->group_count,
                               .open_groups = op->open_groups,
                               .score = (int)score_of(op->function),
                               .scalar = op->scalar,
                               .sum_epsilon = op->sum_epsilon,
                               .adds = call_adds(run->call, 0)};
}

const char *cuda_route(const struct run *run)
{
    struct route_args args = route_of(run, &run->call->inputs[0]);
    args.logits = run_input(run, 0);
    args.bias = run_input(run, 1);
    args.weights = run_output(run, 0);
    assert(args.count <= ROUTE_EXPERT_MAX && "cuda_can_run has looked");
    bool is_near = args.score == ROUTE_NEAR_BEST;
    if (args.tokens > 0) (is_near ? kernel_route_near : kernel_route)(run->on, &args);
    return NULL;
}

const char *cuda_route_backward(const struct run *run)
{
    struct route_args args = route_of(run, &run->call->inputs[0]);
    args.d = run_input(run, 0);
    args.logits = run_input(run, 1);
    args.weights = run_input(run, 2);
    args.d_logits = run_output(run, 0);
    bool is_near = args.score == ROUTE_NEAR_BEST;
    if (args.tokens > 0) (is_near ? kernel_route_near : kernel_route_backward)(run->on, &args);
    // The choice does not depend on the bias by a derivative.
    if (run->call->output_count > 1) return cuda_begin_sum(run->device, run->stream, run->call, 1);
    return NULL;
}

static int64_t token_count(const struct kernel_array *array)
{
    return array_size(array, DIM_BATCH) * array_size(array, DIM_SEQ);
}

// Where experts' rows begin and which tokens they are of, for the device to read.
static const char *send_routing(const struct run *run, struct rows_args *args)
{
    const struct kernel_routing *routing = run->call->routing;
    int64_t begins = args->experts + 1, rows = routing->rows_of[args->experts];
    assert(routing->rows_of[0] == 0 && rows >= 0);
    int64_t *sent = run_scratch(run, SCRATCH_ROWS, (begins + rows + 1) * (int64_t)sizeof(int64_t));
    if (!sent) return CUDA_NO_MEMORY;
    args->rows_of = sent;
    args->token_of = sent + begins;
    args->row_count = rows;
    const char *fault = cuda_fault(cudaMemcpyAsync(
        sent, routing->rows_of, (size_t)begins * sizeof(int64_t), cudaMemcpyHostToDevice, run->on));
    if (fault || !routing->token_of || rows == 0) return fault;
    return cuda_fault(cudaMemcpyAsync(sent + begins, routing->token_of,
                                      (size_t)rows * sizeof(int64_t), cudaMemcpyHostToDevice,
                                      run->on));
}

// A rank has some of the experts, and gates of all of them.
static const char *read_rows(const struct run *run, const struct kernel_array *rows,
                             const struct kernel_array *weights, struct rows_args *args)
{
    const struct kernel_routing *routing = run->call->routing;
    *args = (struct rows_args){.experts = array_size(rows, DIM_EXPERT),
                               .first_expert = array_first(rows, DIM_EXPERT),
                               .tokens = token_count(weights),
                               .width = array_last(rows),
                               .gates = array_size(weights, DIM_GATE),
                               .weights = reals_of(run->device, weights),
                               .adds = call_adds(run->call, 0)};
    if (array_find(rows, DIM_EXPERT) < 0 || array_find(weights, DIM_GATE) < 0)
        return "rows of experts without the dims expert and gate";
    if (args->first_expert + args->experts > args->gates) return "an expert that no weight is for";
    if (routing && routing->expert_count != args->experts) return "the routing is of other experts";
    return NULL;
}

const char *cuda_dispatch(const struct run *run)
{
    struct rows_args args;
    const struct kernel_call *call = run->call;
    const char *fault = read_rows(run, &call->outputs[0], &call->inputs[1], &args);
    if (!fault && call->routing) fault = send_routing(run, &args);
    if (fault) return fault;
    args.x = run_input(run, 0);
    args.rows = run_output(run, 0);
    kernel_dispatch(run->on, &args);
    return NULL;
}

// Rows of a token, by expert.
static const char *index_rows(const struct run *run, struct rows_args *args)
{
    const char *fault = run->call->routing ? send_routing(run, args) : NULL;
    int64_t elements = args->tokens * args->experts;
    args->row_of = run_scratch(run, SCRATCH_INDEX, (elements + 1) * (int64_t)sizeof(int64_t));
    if (!args->row_of) return CUDA_NO_MEMORY;
    if (!fault && elements > 0) kernel_index_rows(run->on, args);
    return fault;
}

// To tokens from their rows: the sum over experts, weighted by the gates where they are chosen by.
static const char *gather_rows(const struct run *run, bool weighted)
{
    struct rows_args args;
    const struct kernel_call *call = run->call;
    const char *fault = read_rows(run, &call->inputs[0], &call->inputs[1], &args);
    if (!fault) fault = index_rows(run, &args);
    if (fault) return fault;
    args.rows = run_input(run, 0);
    args.x = run_output(run, 0);
    if (args.tokens > 0) kernel_combine(run->on, &args, weighted);
    return NULL;
}

const char *cuda_dispatch_backward(const struct run *run)
{
    return gather_rows(run, false);
}

const char *cuda_combine(const struct run *run)
{
    return gather_rows(run, true);
}

const char *cuda_combine_backward(const struct run *run)
{
    struct rows_args args;
    const struct kernel_call *call = run->call;
    const char *fault = read_rows(run, &call->inputs[1], &call->inputs[2], &args);
    if (!fault && call->routing) fault = send_routing(run, &args);
    if (!fault) fault = cuda_begin_sum(run->device, run->stream, call, 1);
    if (fault) return fault;
    args.x = run_input(run, 0);
    args.rows = run_input(run, 1);
    args.d = run_output(run, 0);
    args.d_weights = run_output(run, 1);
    kernel_combine_backward(run->on, &args);
    return NULL;
}
