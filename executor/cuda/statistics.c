#include "executor/cuda/image.h"

#include <assert.h>

// Norms over places, whose statistics ranks that have parts of an image exchange: see
// executor/cpu/statistics.c.

// `stats` is what is kept of the mean.
// A set is what one mean is of: a group of channels, of one sample or of all.
static const char *read_sets(const struct run *run, const struct kernel_array *x,
                             const struct kernel_array *stats, struct statistics_args *args)
{
    const char *fault = cuda_image_of(run, x, &args->x);
    const struct planes *at = &args->x.at;
    if (fault) return fault;
    args->sets = array_elements(stats);
    args->is_of_sample = array_find(stats, DIM_BATCH) >= 0;
    int64_t each = args->is_of_sample && at->batch > 0 ? args->sets / at->batch : args->sets;
    args->channels_of_set = each > 0 ? at->channels / each : 1;
    if (each > 0 && at->channels % each != 0) return "channels are no multiple of what is kept";
    args->pieces = (at->height * at->width + STATISTICS_PIECE - 1) / STATISTICS_PIECE;
    args->count = (double)at->whole_height * (double)at->whole_width *
                  (double)args->channels_of_set * (double)(args->is_of_sample ? 1 : at->batch);
    args->epsilon = (float)run->call->op->work.scalar;
    args->is_shared = at->height < at->whole_height || at->width < at->whole_width;
    return NULL;
}

// The sums are where the caller exchanges them, or in scratch memory behind the partial ones.
static const char *find_room(const struct run *run, struct statistics_args *args)
{
    int64_t partial = 2 * args->x.at.batch * args->x.at.channels * args->pieces;
    int64_t bytes = (partial + 2 * args->sets) * (int64_t)sizeof(float);
    args->partial = run_scratch(run, SCRATCH_PARTIAL, bytes + 1);
    if (!args->partial) return CUDA_NO_MEMORY;
    assert(partial >= 0 && args->sets >= 0);
    args->sums = args->partial + partial;
    if (run->call->part == 0) return NULL;
    const struct kernel_array *inner = &run->call->inner;
    bool fits = array_elements(inner) == 2 * args->sets &&
                reals_of(run->device, inner).number == NUMBER_FP32;
    if (fits) args->sums = inner->data;
    return fits ? NULL : "no room to exchange";
}

// In two parts where ranks share the image: sums, which the caller adds up, then the result.
static const char *forward(const struct run *run)
{
    struct statistics_args args = {0};
    const struct kernel_call *call = run->call;
    if (call->input_count != 3 || call->output_count != 3) return "a norm without scale and bias";
    const char *fault = read_sets(run, &call->inputs[0], &call->outputs[1], &args);
    if (!fault) fault = cuda_image_of(run, &call->outputs[0], &args.y);
    if (fault || (call->part == 0 && args.is_shared) || args.sets == 0) return fault;
    args.scale = run_input(run, 1), args.bias = run_input(run, 2);
    args.mean = run_output(run, 1), args.inverse = run_output(run, 2);
    if ((fault = find_room(run, &args))) return fault;
    if (call->part < 2) kernel_statistics_sums(run->on, &args);
    if (call->part != 1) kernel_statistics(run->on, &args);
    return NULL;
}

// d_y, x, scale, mean, inverse deviation; of an image that is data nobody wants a gradient.
static const char *backward(const struct run *run)
{
    struct statistics_args args = {0};
    const struct kernel_call *call = run->call;
    int factor = call->output_count - 2;
    if (call->input_count != 5 || factor < 0 || factor > 1) return "a norm without scale and bias";
    const char *fault = read_sets(run, &call->inputs[1], &call->inputs[3], &args);
    if (!fault) fault = cuda_image_of(run, &call->inputs[0], &args.d);
    if (!fault && factor == 1) fault = cuda_image_of(run, &call->outputs[0], &args.d_x);
    if (fault || (call->part == 0 && args.is_shared)) return fault;
    args.scale = run_input(run, 2);
    args.mean = run_input(run, 3), args.inverse = run_input(run, 4);
    args.d_scale = run_output(run, factor), args.d_bias = run_output(run, factor + 1);
    args.adds_x = call_adds(call, 0);
    args.adds_scale = call_adds(call, factor), args.adds_bias = call_adds(call, factor + 1);
    if ((fault = find_room(run, &args))) return fault;
    // What the ranks have added up stays; the sums of this rank's pieces are made again.
    float *whole = args.sums;
    if (call->part == 2)
        args.sums = args.partial + 2 * args.x.at.batch * args.x.at.channels * args.pieces;
    if (args.sets > 0) kernel_statistics_sums(run->on, &args);
    args.sums = whole;
    if (call->part != 1) kernel_statistics_backward(run->on, &args);
    return NULL;
}

const char *cuda_statistics(const struct run *run)
{
    return run->call->op->phase == PHASE_FORWARD ? forward(run) : backward(run);
}
