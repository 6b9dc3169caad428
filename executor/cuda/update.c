#include "executor/cuda/cuda.h"

#include <assert.h>
#include <math.h>

// Optimizers, sums of squares and scaling, for the kernels of update.cu.

// LAMB and LARS need the norm of the whole direction between their two parts.
static const char *rule_of(const struct update_call *call, enum update_rule *rule)
{
    bool has_moments = call->first_moments && call->second_moments;
    bool is_lamb = call->optimizer == OPTIMIZER_LAMB;
    switch (call->optimizer) {
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAM:
        *rule = call->optimizer == OPTIMIZER_ADAMW ? UPDATE_ADAMW : UPDATE_ADAM;
        return has_moments ? NULL : "Adam needs two moments";
    case OPTIMIZER_SGD:
        *rule = UPDATE_SGD;
        return NULL;
    case OPTIMIZER_LAMB:
    case OPTIMIZER_LARS:
        if (is_lamb && !has_moments) return "LAMB needs two moments";
        if (call->part == UPDATE_ALL) return "LAMB and LARS update in two parts";
        if (!call->direction) return "LAMB and LARS need room for the direction";
        if (call->part == UPDATE_DIRECTION) {
            *rule = is_lamb ? UPDATE_LAMB : UPDATE_DECAY;
        } else {
            *rule = is_lamb || !call->first_moments ? UPDATE_DESCEND : UPDATE_DESCEND_WITH;
        }
        return NULL;
    default:
        return "no such optimizer";
    }
}

// All but the arrays.
static struct update_args args_of(const struct update_call *call, enum update_rule rule)
{
    double step = (double)call->step, rate = call->learning_rate;
    bool corrects = rule == UPDATE_ADAMW || rule == UPDATE_ADAM || rule == UPDATE_LAMB;
    assert((!corrects || call->step > 0) && "moments are corrected by the number of steps");
    if (call->part == UPDATE_APPLY) rate *= call->trust_ratio;
    return (struct update_args){.rule = (int)rule,
                                .rate = (float)rate,
                                .beta1 = (float)call->beta1,
                                .beta2 = (float)call->beta2,
                                .epsilon = (float)call->epsilon,
                                .scale = (float)call->gradient_scale,
                                .momentum = (float)call->momentum,
                                .correction1 = (float)(1 / (1 - pow(call->beta1, step))),
                                .correction2 = (float)(1 / (1 - pow(call->beta2, step)))};
}

// Chunks of all arrays are counted through: a block finds its array by its chunk.
static void add_array(struct update_args *args, const struct update_call *call, int number)
{
    assert(args->array_count < UPDATE_PARTS && call->count > 0);
    args->arrays[args->array_count++] = (struct update_array){
        .count = call->count,
        .first_chunk = args->chunk_count,
        .decay = (float)call->weight_decay,
        .weights = call->weights,
        .gradients = call->gradients,
        .first_moments = call->first_moments,
        .second_moments = call->second_moments,
        .direction = call->direction,
        .rounded = {call->rounded, number},
    };
    args->chunk_count += (call->count + UPDATE_CHUNK - 1) / UPDATE_CHUNK;
}

const char *cuda_update_all(struct device *device, enum stream stream,
                            const struct update_call *calls, int count)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    for (int i = 0; i < count;) {
        enum update_rule rule;
        const char *fault = rule_of(&calls[i], &rule);
        if (fault) return fault;
        // Calls differ in their arrays and decay alone (executor/backend.h): the first speaks for
        // all.
        struct update_args args = args_of(&calls[i], rule);
        for (; i < count && args.array_count < UPDATE_PARTS; i++) {
            if (calls[i].count > 0) add_array(&args, &calls[i], (int)own->compute);
        }
        if (args.array_count > 0) kernel_update(own->streams[stream], &args);
    }
    return cuda_fault(cudaGetLastError());
}

const char *cuda_update(struct device *device, enum stream stream, const struct update_call *call)
{
    return cuda_update_all(device, stream, call, 1);
}

// Sums wait on the device until all are there; the host adds them up in the order of the arrays.
const char *cuda_sum_squares_of(struct device *device, enum stream stream,
                                const struct real_array *arrays, int count, double *sum)
{
    enum { AT_ONCE = 512 };
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    double found[AT_ONCE];
    double *partial = cuda_scratch(own, stream, SCRATCH_PARTIAL,
                                   (SQUARE_BLOCKS + AT_ONCE) * (int64_t)sizeof *partial);
    if (!partial) return CUDA_NO_MEMORY;
    double *sums = partial + SQUARE_BLOCKS;
    for (int first = 0; first < count; first += AT_ONCE) {
        int here = count - first < AT_ONCE ? count - first : AT_ONCE;
        size_t bytes = (size_t)here * sizeof *sums;
        const char *fault = cuda_fault(cudaMemsetAsync(sums, 0, bytes, own->streams[stream]));
        if (fault) return fault;
        for (int i = 0; i < here; i++) {
            const struct real_array *array = &arrays[first + i];
            if (array->count == 0) continue;
            kernel_sum_squares(own->streams[stream], array->reals, array->count, partial, sums + i);
        }
        fault = cuda_fault(
            cudaMemcpyAsync(found, sums, bytes, cudaMemcpyDeviceToHost, own->streams[stream]));
        if (!fault) fault = cuda_fault(cudaStreamSynchronize(own->streams[stream]));
        if (fault) return fault;
        for (int i = 0; i < here; i++)
            *sum += found[i];
    }
    return cuda_fault(cudaGetLastError());
}

const char *cuda_sum_squares(struct device *device, enum stream stream, const void *reals,
                             int64_t count, double *sum)
{
    struct real_array array = {reals, count};
    return cuda_sum_squares_of(device, stream, &array, 1, sum);
}

const char *cuda_scale(struct device *device, enum stream stream, void *reals, int64_t count,
                       double factor)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    struct reals x = {reals, NUMBER_FP32};
    if (count > 0) kernel_scale(own->streams[stream], x, count, (float)factor);
    return cuda_fault(cudaGetLastError());
}

static const char *convert(struct device *device, enum stream stream, struct reals to,
                           struct reals from, int64_t count)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    struct terms_args args = {.rank = 1,
                              .term_count = 1,
                              .sizes = {count},
                              .out = to,
                              .out_strides = {1},
                              .term = {from},
                              .strides = {{1}}};
    if (count > 0) kernel_terms(own->streams[stream], &args);
    return cuda_fault(cudaGetLastError());
}

static int compute_of(struct device *device)
{
    return (int)((struct cuda_device *)(void *)device)->compute;
}

const char *cuda_round(struct device *device, enum stream stream, void *rounded, const void *reals,
                       int64_t count)
{
    return convert(device, stream, (struct reals){rounded, compute_of(device)},
                   (struct reals){(void *)reals, NUMBER_FP32}, count);
}

const char *cuda_widen(struct device *device, enum stream stream, void *reals, const void *rounded,
                       int64_t count)
{
    return convert(device, stream, (struct reals){reals, NUMBER_FP32},
                   (struct reals){(void *)rounded, compute_of(device)}, count);
}
