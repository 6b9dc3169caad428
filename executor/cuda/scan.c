#include "executor/cuda/cuda.h"
#include "executor/scan_call.h"

#include <assert.h>

// Convolutions of models/op_scan.h and the delta rule of models/op_delta.h: what their kernels are
// given. Scans are run by chunks.c.

const char *cuda_check_conv(const struct kernel_call *call, int first_input)
{
    enum function function = call->op->function;
    const char *fault = call_check_conv(call, first_input);
    if (fault) return fault;
    if (function != FUNCTION_NONE && function != FUNCTION_SILU)
        return "a convolution with another function than silu";
    bool fits = array_last(&call->inputs[first_input + 1]) <= CONV_TAPS_MAX;
    return fits ? NULL : "a convolution of more than 8 taps";
}

static struct conv_args conv_of(const struct run *run, int first_input)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *x = &call->inputs[first_input];
    assert(array_last(x + 1) <= CONV_TAPS_MAX && "cuda_check_conv has looked");
    return (struct conv_args){.batch = x->sizes[0],
                              .seq = x->sizes[1],
                              .channels = array_row(x),
                              .taps = (int)array_last(x + 1),
                              .has_silu = call->op->function == FUNCTION_SILU,
                              .x = run_input(run, first_input),
                              .weight = run_input(run, first_input + 1),
                              .bias = run_input(run, first_input + 2)};
}

const char *cuda_conv(const struct run *run)
{
    struct conv_args args = conv_of(run, 0);
    args.y = run_output(run, 0);
    if (args.batch * args.seq * args.channels > 0) kernel_conv(run->on, &args);
    return NULL;
}

const char *cuda_conv_backward(const struct run *run)
{
    const struct kernel_call *call = run->call;
    struct conv_args args = conv_of(run, 1);
    int64_t tokens = args.batch * args.seq;
    const char *fault = NULL;
    if (tokens * args.channels == 0) {
        for (int i = 1; i < call->output_count && !fault; i++)
            fault = cuda_begin_sum(run->device, run->stream, call, i);
        return fault;
    }
    int64_t room = conv_room(tokens, args.channels, args.taps);
    args.d_sum = run_scratch(run, SCRATCH_PARTIAL, room * 4);
    if (!args.d_sum) return CUDA_NO_MEMORY;
    args.partial = args.d_sum + tokens * args.channels;
    args.d = run_input(run, 0);
    args.d_x = run_output(run, 0);
    args.d_weight = run_output(run, 1);
    args.d_bias = run_output(run, 2);
    args.adds_weight = call_adds(call, 1);
    args.adds_bias = call_adds(call, 2);
    kernel_conv_backward(run->on, &args);
    return NULL;
}

const char *cuda_check_delta(const struct kernel_call *call, int first_input)
{
    const char *fault = call_check_delta(call, first_input);
    if (fault) return fault;
    bool fits = array_last(&call->inputs[first_input + 2]) <= SCAN_STATE_MAX;
    return fits ? NULL : "a scan with a state of more than 256 numbers a channel";
}

static struct delta_args delta_of(const struct run *run, int first_input)
{
    const struct kernel_array *x = &run->call->inputs[first_input], *dt = x + 1, *b = x + 2;
    int64_t steps = dt->rank == 4 ? dt->sizes[3] : 1;
    assert(b->whole[2] > 0 && x->whole[2] % b->whole[2] == 0);
    return (struct delta_args){.steps = steps,
                               .epsilon = (float)run->call->op->scalar,
                               .batch = x->sizes[0],
                               .seq = x->sizes[1],
                               .heads = x->sizes[2],
                               .groups = b->sizes[2],
                               .width = x->sizes[3],
                               .state = b->sizes[3],
                               .heads_each = x->whole[2] / b->whole[2],
                               .first_head = x->first[2],
                               .first_group = b->first[2],
                               .x = run_input(run, first_input),
                               .dt = run_input(run, first_input + 1),
                               .b = run_input(run, first_input + 2),
                               .c = run_input(run, first_input + 3),
                               .a_log = run_input(run, first_input + 4),
                               .d = run_input(run, first_input + 5)};
}

static bool is_empty(const struct delta_args *args)
{
    return args->batch * args->seq * args->heads * args->width * args->state == 0;
}

const char *cuda_delta(const struct run *run)
{
    struct delta_args args = delta_of(run, 0);
    args.y = run_output(run, 0);
    if (!is_empty(&args)) kernel_delta(run->on, &args);
    return NULL;
}

// Partial sums of as many (sequence, head) pairs as have room at once, then the sums of all.
static const char *find_room(const struct run *run, struct delta_args *args)
{
    const struct token_walk of = {args->batch,  args->seq,   args->heads,
                                  args->groups, args->width, args->state};
    int64_t sums = args->batch * args->seq * args->groups * args->state;
    args->stride = scan_stride(args->seq);
    args->stretches = walk_stretches(&of);
    args->room = walk_room(&of);
    args->pairs = walk_pairs(&of);  // as many as have room at once
    assert(args->pairs > 0);
    args->rooms = run_scratch(run, SCRATCH_PARTIAL, walk_bytes(&of));
    if (!args->rooms) return CUDA_NO_MEMORY;
    args->part_b = args->rooms + args->pairs * args->room;
    args->part_c = args->part_b + args->pairs * args->seq * args->state;
    args->sum_b = args->part_c + args->pairs * args->seq * args->state;
    args->sum_c = args->sum_b + sums;
    args->of_heads = args->sum_c + sums;
    return NULL;
}

const char *cuda_delta_backward(const struct run *run)
{
    const struct kernel_call *call = run->call;
    struct delta_args args = delta_of(run, 1);
    const char *fault = NULL;
    if (is_empty(&args)) {
        for (int i = 1; i < call->output_count && !fault; i++)
            fault = cuda_begin_sum(run->device, run->stream, call, i);
        return fault;
    }
    if ((fault = find_room(run, &args))) return fault;
    args.d_y = run_input(run, 0);
    struct reals *const outputs[] = {&args.d_x, &args.d_dt,    &args.d_b,
                                     &args.d_c, &args.d_a_log, &args.d_d};
    for (int i = 0; i < call->output_count; i++)
        *outputs[i] = run_output(run, i);
    args.adds_b = call_adds(call, 2);
    args.adds_c = call_adds(call, 3);
    args.adds_a_log = call_adds(call, 4);
    int64_t all = args.batch * args.heads, pairs = args.pairs;
    // In the order of sequences and heads.
    for (int64_t first = 0; first < all; first += pairs) {
        args.first_pair = first;
        args.pairs = all - first < pairs ? all - first : pairs;
        kernel_delta_backward(run->on, &args);
        kernel_delta_join(run->on, &args);
    }
    kernel_delta_sums(run->on, &args);
    return NULL;
}
