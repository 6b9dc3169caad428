#include "executor/cuda/attention.h"

#include <assert.h>
#include <string.h>

// Attention: cuDNN where it has an engine, else by GEMMs and a masked softmax over whole rows of
// scores, some heads at a time. The second is also what the first is compared with.

const char *cuda_check_attention(const struct kernel_call *call, int first_input)
{
    struct kernel_call folded = *call;
    const char *fault = call_fold_attention(&folded, first_input);
    if (!fault && call->op->top_k > 0) fault = call_check_chosen(&folded, first_input);
    return fault ? fault : call_check_attention(&folded, first_input);
}

static struct cuda_attend attend_read(const struct run *run, int first_input)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *q = &call->inputs[first_input], *k = q + 1, *v = q + 2;
    struct cuda_attend attend = {.run = run,
                                 .op = call->op,
                                 .batch_count = q->sizes[0],
                                 .queries = q->sizes[1],
                                 .keys = k->sizes[1],
                                 .heads = q->sizes[2],
                                 .kv_heads = k->sizes[2],
                                 .width = q->sizes[3],
                                 .value_width = v->sizes[3],
                                 .q_stride = array_stride(q, 1),
                                 .k_stride = array_stride(k, 1),
                                 .v_stride = array_stride(v, 1),
                                 .first_query = q->first[1],
                                 .first_key = k->first[1],
                                 .first_head = q->first[2],
                                 .first_kv_head = k->first[2],
                                 .group = q->whole[2] / k->whole[2],
                                 .q = reals_of(run->device, q),
                                 .k = reals_of(run->device, k),
                                 .v = reals_of(run->device, v)};
    attend.number = attend.q.number;
    const struct kernel_array *sink = call_sink(call, first_input);
    attend.has_sink = sink != NULL;
    if (sink) attend.sink = reals_of(run->device, sink);
    if (call->op->top_k == 0) return attend;
    attend.chosen = reals_of(run->device, call_chosen(call, first_input));
    attend.chosen_count = array_last(call_chosen(call, first_input));
    return attend;
}

// Neighbouring heads of one sequence that share a key head, or of which each has its own, as many
// as have room for scores.
struct cuda_heads {
    int64_t sequence, first, count, kv_head;
};

static bool next_heads(const struct cuda_attend *a, struct cuda_heads *at)
{
    enum { SCORES_MAX = 1 << 26 };
    at->first += at->count;
    if (at->first == a->heads) {
        at->first = 0;
        at->sequence++;
    }
    if (at->sequence == a->batch_count) return false;
    int64_t whole = a->first_head + at->first, room = SCORES_MAX / (a->queries * a->keys);
    int64_t here = a->heads - at->first;
    int64_t left = a->group == 1 ? here : a->group - whole % a->group;
    at->kv_head = whole / a->group - a->first_kv_head;
    at->count = left < here ? left : here;
    if (room < 1) room = 1;
    if (at->count > room) at->count = room;
    assert(at->count > 0 && at->kv_head >= 0 && at->kv_head < a->kv_heads);
    return true;
}

// Of q, or of out by its width; of k or v. One head's rows lie `stride` apart.
static struct matrix by_query(const struct cuda_attend *a, const struct cuda_heads *at,
                              struct reals reals, int64_t width, int64_t stride)
{
    return (struct matrix){reals_at(reals, at->sequence * a->queries * stride + at->first * width),
                           stride, 1, width};
}
// Heads that share keys read the same: their batch does not move on.
static struct matrix by_key(const struct cuda_attend *a, const struct cuda_heads *at,
                            struct reals reals, int64_t width, int64_t stride)
{
    return (struct matrix){reals_at(reals, at->sequence * a->keys * stride + at->kv_head * width),
                           stride, 1, a->group == 1 ? width : 0};
}
static struct matrix by_result(const struct cuda_attend *a, const struct cuda_heads *at,
                               struct reals reals)
{
    return by_query(a, at, reals, a->value_width, a->heads * a->value_width);
}
// Transposed, where it lies.
static struct matrix turned(struct matrix m)
{
    return (struct matrix){m.reals, m.column_stride, m.row_stride, m.batch_stride};
}
static struct matrix score_matrix(const struct cuda_attend *a, void *data, int number)
{
    return (struct matrix){{data, number}, a->keys, 1, a->queries * a->keys};
}

// scores = factor * x . y^T, with a head's width to sum over.
static const char *score(const struct cuda_attend *a, const struct cuda_heads *at, struct matrix x,
                         struct matrix y, int64_t width, double factor, float *scores)
{
    struct cuda_matmul product = {.rows = a->queries,
                                  .columns = a->keys,
                                  .inner = width,
                                  .batch = at->count,
                                  .alpha = factor,
                                  .a = x,
                                  .b = turned(y),
                                  .c = score_matrix(a, scores, NUMBER_FP32)};
    return cuda_multiply(a->run->device, a->run->stream, &product);
}

// Places in the whole, so that masks and dropout are equal for every plan.
static struct attend_args args_of(const struct cuda_attend *a, const struct cuda_heads *at,
                                  int first_input, struct reals lse)
{
    const struct kernel_call *call = a->run->call;
    const struct kernel_array *q = &call->inputs[first_input], *k = q + 1;
    return (struct attend_args){
        .sight = {a->op->causal, a->op->window, a->op->chunked, a->op->prefix},
        .heads = at->count,
        .queries = a->queries,
        .keys = a->keys,
        .value_width = a->value_width,
        .first_query = a->first_query,
        .first_key = a->first_key,
        .scale = (float)a->op->scalar,
        .softcap = (float)a->op->softcap,
        .alibi = a->op->alibi,
        .first_head = a->first_head + at->first,
        .whole_heads = call->head_count,
        .sequence = q->first[0] + at->sequence,
        .whole_queries = q->whole[1],
        .whole_keys = k->whole[1],
        .dropout_heads = q->whole[2],
        .dropout_ratio = a->op->dropout_ratio,
        .key = call->key,
        .key_at = call->key_at,
        .sink = a->has_sink ? reals_at(a->sink, at->first) : (struct reals){0},
        .lse = reals_at(lse, at->sequence * a->queries * a->heads + at->first),
        .lse_stride = a->heads,
        .out_stride = a->heads * a->value_width,
        .merges = call->merges,
        .chosen = a->op->top_k > 0
                      ? reals_at(a->chosen, at->sequence * a->queries * a->chosen_count)
                      : (struct reals){0},
        .chosen_count = a->chosen_count,
    };
}

// Scores in fp32, and as wide as a product's other operand the weights that it reads.
static bool allocate(const struct cuda_attend *a, struct attend_args *args, int64_t heads,
                     bool is_backward)
{
    int64_t scores = heads * a->queries * a->keys, rows = heads * a->queries;
    int64_t narrow = scores * number_bytes(a->number);
    args->scores = run_scratch(a->run, SCRATCH_SCORES, scores * 4);
    args->weights = (struct reals){run_scratch(a->run, SCRATCH_WEIGHTS, narrow), a->number};
    args->factors = run_scratch(a->run, SCRATCH_PARTIAL, rows * 4);
    if (!args->scores || !args->weights.data || !args->factors) return false;
    if (!is_backward) return true;
    args->d_scores = run_scratch(a->run, SCRATCH_D_SCORES, scores * 4);
    args->d_weights = (struct reals){run_scratch(a->run, SCRATCH_D_WEIGHTS, narrow), a->number};
    return args->d_scores && args->d_weights.data;
}

// Of an earlier block of a ring there is a result already: it is scaled down and added to.
static const char *attend_heads(const struct cuda_attend *a, const struct cuda_heads *at)
{
    struct attend_args args = args_of(a, at, 0, run_output(a->run, 1));
    if (!allocate(a, &args, at->count, false)) return CUDA_NO_MEMORY;
    const char *fault =
        score(a, at, by_query(a, at, a->q, a->width, a->q_stride),
              by_key(a, at, a->k, a->width, a->k_stride), a->width, a->op->scalar, args.scores);
    if (fault) return fault;
    kernel_attend(a->run->on, &args);
    struct matrix out = by_result(a, at, run_output(a->run, 0));
    struct cuda_matmul product = {.rows = a->queries,
                                  .columns = a->value_width,
                                  .inner = a->keys,
                                  .batch = at->count,
                                  .alpha = 1,
                                  .a = score_matrix(a, args.weights.data, a->number),
                                  .b = by_key(a, at, a->v, a->value_width, a->v_stride),
                                  .c = out};
    if (!args.merges) return cuda_multiply(a->run->device, a->run->stream, &product);
    int64_t elements = at->count * a->queries * a->value_width;
    float *fresh = run_scratch(a->run, SCRATCH_RESULT, elements * 4);
    if (!fresh) return CUDA_NO_MEMORY;
    product.c =
        (struct matrix){{fresh, NUMBER_FP32}, a->value_width, 1, a->queries * a->value_width};
    fault = cuda_multiply(a->run->device, a->run->stream, &product);
    args.out = out.reals;
    if (!fault) kernel_attend_merge(a->run->on, &args, fresh);
    return fault;
}

static const char *attend(const struct run *run)
{
    struct cuda_attend a = attend_read(run, 0);
    struct cuda_heads at = {0};
    const struct kernel_call *call = run->call;
    if (array_elements(&call->outputs[0]) == 0) return NULL;
    if (a.keys == 0) return "attention without keys";
    assert(a.group > 0 && a.queries > 0);
    bool is_done = false;
    const char *fault = cuda_attend_fused(&a, &is_done);
    if (is_done) return fault;
    while (!fault && next_heads(&a, &at))
        fault = attend_heads(&a, &at);
    return fault;
}

// Where heads share keys one after another adds to their gradients.
static const char *add_keys(const struct cuda_attend *a, const struct cuda_heads *at,
                            struct reals weights, struct matrix rows, struct reals sum,
                            int64_t width)
{
    const char *fault = NULL;
    int64_t at_once = a->group == 1 ? at->count : 1;
    for (int64_t head = 0; head < at->count && !fault; head += at_once) {
        struct matrix scores =
            score_matrix(a, reals_at(weights, head * a->queries * a->keys).data, weights.number);
        struct cuda_matmul product = {.rows = a->keys,
                                      .columns = width,
                                      .inner = a->queries,
                                      .batch = at_once,
                                      .alpha = 1,
                                      .beta = 1,
                                      .a = turned(scores),
                                      .b = rows,
                                      .c = by_key(a, at, sum, width, a->kv_heads * width)};
        product.b.reals = reals_at(rows.reals, head * width);
        fault = cuda_multiply(a->run->device, a->run->stream, &product);
    }
    return fault;
}

// Weights are made again from the log-sum-exp: forward keeps none. d_scores are the softmax's
// gradient, which the kernel writes over what the products of d and v gave.
static const char *heads_backward(const struct cuda_attend *a, const struct cuda_heads *at,
                                  const struct attend_gradients *g)
{
    const struct kernel_call *call = a->run->call;
    struct attend_args args = args_of(a, at, 1, g->lse);
    struct matrix d = by_result(a, at, g->d);
    if (!allocate(a, &args, at->count, true)) return CUDA_NO_MEMORY;
    args.d = d.reals;
    args.out = by_result(a, at, g->out).reals;
    struct matrix q = by_query(a, at, a->q, a->width, a->q_stride);
    struct matrix k = by_key(a, at, a->k, a->width, a->k_stride);
    const char *fault = score(a, at, q, k, a->width, a->op->scalar, args.scores);
    if (!fault) {
        fault = score(a, at, d, by_key(a, at, a->v, a->value_width, a->v_stride), a->value_width, 1,
                      args.d_scores);
    }
    if (fault) return fault;
    kernel_attend_backward(a->run->on, &args);
    struct cuda_matmul product = {
        .rows = a->queries,
        .columns = a->width,
        .inner = a->keys,
        .batch = at->count,
        .alpha = 1,
        .beta = call->merges || call_adds(call, 0) ? 1 : 0,
        .a = score_matrix(a, args.d_weights.data, a->number),
        .b = k,
        .c = by_query(a, at, g->d_q, a->width, array_stride(&call->outputs[0], 1))};
    fault = cuda_multiply(a->run->device, a->run->stream, &product);
    if (!fault) fault = add_keys(a, at, args.weights, d, g->v_sum, a->value_width);
    if (!fault) fault = add_keys(a, at, args.d_weights, q, g->k_sum, a->width);
    return fault;
}

const char *cuda_begin_keys(const struct run *run, enum scratch scratch, int64_t elements,
                            struct reals *sum)
{
    assert(elements > 0);
    *sum = (struct reals){run_scratch(run, scratch, elements * 4), NUMBER_FP32};
    if (!sum->data) return CUDA_NO_MEMORY;
    return cuda_fault(cudaMemsetAsync(sum->data, 0, (size_t)elements * 4, run->on));
}

void cuda_end_keys(const struct run *run, int output, struct reals sum)
{
    const struct kernel_array *out = &run->call->outputs[output];
    int64_t row = array_row(out);
    assert(output == 1 || output == 2);
    struct terms_args args = {.rank = 2,
                              .term_count = 1,
                              .adds = run->call->merges || call_adds(run->call, output),
                              .sizes = {out->sizes[0] * out->sizes[1], row},
                              .out = run_output(run, output),
                              .out_strides = {array_stride(out, 1), 1},
                              .term = {sum},
                              .strides = {{row, 1}}};
    kernel_terms(run->on, &args);
}

// The sink's part, which does not depend on keys, is the first block's of a ring.
static const char *end_sink(const struct cuda_attend *a, const struct attend_gradients *g)
{
    const struct kernel_call *call = a->run->call;
    int64_t rows = a->batch_count * a->heads * a->queries;
    if (!a->has_sink || call->output_count < 4 || call->merges) return NULL;
    struct sink_args sinks = {.rows = rows,
                              .queries = a->queries,
                              .heads = a->heads,
                              .width = a->value_width,
                              .sink = a->sink,
                              .lse = g->lse,
                              .out = g->out,
                              .d = g->d,
                              .result = run_scratch(a->run, SCRATCH_RESULT, rows * 4)};
    if (!sinks.result) return CUDA_NO_MEMORY;
    kernel_sinks_backward(a->run->on, &sinks);
    struct repeat_args args = {.rank = 3,
                               .adds = call_adds(call, 3),
                               .wide = {sinks.result, NUMBER_FP32},
                               .narrow = run_output(a->run, 3),
                               .sizes = {a->batch_count, a->heads, a->queries},
                               .strides = {a->heads * a->queries, a->queries, 1},
                               .repeats = {0, 1, 0},
                               .narrow_sizes = {1, a->heads, 1},
                               .narrow_strides = {0, 1, 0}};
    kernel_fold(a->run->on, &args);
    return NULL;
}

// Keys are summed apart in fp32: heads, and blocks of a ring, add to them one after another.
static const char *run_backward(const struct cuda_attend *a, struct attend_gradients *g)
{
    const struct run *run = a->run;
    struct cuda_heads at = {0};
    int64_t rows = a->batch_count * a->keys * a->kv_heads;
    const char *fault = cuda_begin_keys(run, SCRATCH_KEYS, rows * a->width, &g->k_sum);
    if (!fault) fault = cuda_begin_keys(run, SCRATCH_VALUES, rows * a->value_width, &g->v_sum);
    if (fault) return fault;
    while (!fault && next_heads(a, &at))
        fault = heads_backward(a, &at, g);
    if (fault) return fault;
    cuda_end_keys(run, 1, g->k_sum);
    cuda_end_keys(run, 2, g->v_sum);
    return NULL;
}

static const char *attend_backward(const struct run *run)
{
    const struct kernel_call *call = run->call;
    struct cuda_attend a = attend_read(run, 1);
    struct attend_gradients g = {.d = run_input(run, 0),
                                 .out = run_input(run, call->input_count - 2),
                                 .lse = run_input(run, call->input_count - 1),
                                 .d_q = run_output(run, 0),
                                 .d_k = run_output(run, 1),
                                 .d_v = run_output(run, 2)};
    bool is_empty = array_elements(&call->inputs[1]) == 0 || a.keys == 0 || a.kv_heads == 0;
    const char *fault = NULL;
    for (int i = 0; i < call->output_count && is_empty && !call->merges && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, call, i);
    if (is_empty) return fault;
    bool is_done = false;
    fault = cuda_attend_fused_backward(&a, &g, &is_done);
    if (!is_done) fault = run_backward(&a, &g);
    return fault ? fault : end_sink(&a, &g);
}

// Over one dim of several as over the tokens of sequences.
static const char *run_folded(const struct run *run, int first_input,
                              const char *(*attends)(const struct run *run))
{
    struct kernel_call folded = *run->call;
    struct run own = *run;
    const char *fault = call_fold_attention(&folded, first_input);
    own.call = &folded;
    return fault ? fault : attends(&own);
}

const char *cuda_attention(const struct run *run)
{
    return run_folded(run, 0, attend);
}

const char *cuda_attention_backward(const struct run *run)
{
    return run_folded(run, 1, attend_backward);
}
