#include "executor/cuda/selective.h"
#include "executor/cuda/cuda.h"
#include "executor/scan_call.h"

#include <assert.h>

// Scans with a decay for each number of a channel's state: what their kernels are given.

// Channels are independent: a rank that holds some of them scans those.
static struct selective_scan shape_of(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *x = &call->inputs[first_input];
    return (struct selective_scan){.batch = x->sizes[0],
                                   .seq = x->sizes[1],
                                   .channels = x->sizes[2],
                                   .state = array_last(&call->inputs[op_scan_b(call->op)])};
}

static bool is_empty(const struct selective_scan *of)
{
    return of->batch * of->seq * of->channels * of->state == 0;
}

// False: there is no room.
static bool begin(const struct run *run, int first_input, const struct selective_scan *of,
                  struct selective_args *args)
{
    bool is_backward = first_input > 0;
    float *room = run_scratch(run, SCRATCH_PARTIAL, 4 * selective_room(of, is_backward));
    *args = (struct selective_args){.batch = of->batch,
                                    .seq = of->seq,
                                    .channels = of->channels,
                                    .state = of->state,
                                    .stretches = selective_stretches(of),
                                    .parts = selective_parts(of),
                                    .x = run_input(run, first_input),
                                    .dt = run_input(run, first_input + 1),
                                    .b = run_input(run, first_input + 2),
                                    .c = run_input(run, first_input + 3),
                                    .a_log = run_input(run, first_input + 4),
                                    .d = run_input(run, first_input + 5),
                                    .states = room};
    if (!room) return false;
    args->sums = room + selective_states(of);
    if (!is_backward) return true;
    args->gradients = args->sums + selective_sums(of);
    args->part_b = args->gradients + selective_states(of);
    args->part_c = args->part_b + selective_said(of);
    assert(args->part_c + selective_said(of) == room + selective_room(of, is_backward));
    return true;
}

const char *cuda_selective(const struct run *run)
{
    struct selective_scan of = shape_of(run->call, 0);
    struct selective_args args;
    if (is_empty(&of)) return NULL;
    if (!begin(run, 0, &of, &args)) return CUDA_NO_MEMORY;
    args.y = run_output(run, 0);
    kernel_selective(run->on, &args);
    return NULL;
}

const char *cuda_selective_backward(const struct run *run)
{
    const struct kernel_call *call = run->call;
    struct selective_scan of = shape_of(call, 1);
    struct selective_args args;
    const char *fault = NULL;
    if (is_empty(&of)) {
        for (int i = 1; i < call->output_count && !fault; i++)
            fault = cuda_begin_sum(run->device, run->stream, call, i);
        return fault;
    }
    if (!begin(run, 1, &of, &args)) return CUDA_NO_MEMORY;
    args.d_y = run_input(run, 0);
    struct reals *const outputs[] = {&args.d_x, &args.d_dt,    &args.d_b,
                                     &args.d_c, &args.d_a_log, &args.d_d};
    for (int i = 0; i < call->output_count; i++)
        *outputs[i] = run_output(run, i);
    args.adds_b = call_adds(call, 2);
    args.adds_c = call_adds(call, 3);
    args.adds_a_log = call_adds(call, 4);
    args.adds_d = call_adds(call, 5);
    kernel_selective_backward(run->on, &args);
    return NULL;
}
