#include "executor/cuda/cuda.h"

#include <math.h>

// Optimizers, sums of squares and scaling, for the kernels of update.cu.

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

const char *cuda_update(struct device *device, enum stream stream, const struct update_call *call)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    enum update_rule rule;
    const char *fault = rule_of(call, &rule);
    if (fault || call->count == 0) return fault;
    double step = (double)call->step, rate = call->learning_rate;
    if (call->part == UPDATE_APPLY) rate *= call->trust_ratio;
    struct update_args args = {.rule = (int)rule,
                               .count = call->count,
                               .rate = (float)rate,
                               .beta1 = (float)call->beta1,
                               .beta2 = (float)call->beta2,
                               .epsilon = (float)call->epsilon,
                               .decay = (float)call->weight_decay,
                               .scale = (float)call->gradient_scale,
                               .momentum = (float)call->momentum,
                               .correction1 = (float)(1 / (1 - pow(call->beta1, step))),
                               .correction2 = (float)(1 / (1 - pow(call->beta2, step))),
                               .weights = call->weights,
                               .gradients = call->gradients,
                               .first_moments = call->first_moments,
                               .second_moments = call->second_moments,
                               .direction = call->direction,
                               .rounded = {call->rounded, (int)own->compute}};
    kernel_update(own->streams[stream], &args);
    return cuda_fault(cudaGetLastError());
}

const char *cuda_sum_squares(struct device *device, enum stream stream, const void *reals,
                             int64_t count, double *sum)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    double found;
    double *partial =
        cuda_scratch(own, stream, SCRATCH_PARTIAL, (SQUARE_BLOCKS + 1) * (int64_t)sizeof *partial);
    if (!partial) return CUDA_NO_MEMORY;
    if (count == 0) return NULL;
    kernel_sum_squares(own->streams[stream], reals, count, partial);
    const char *fault = cuda_fault(cudaMemcpyAsync(&found, partial, sizeof found,
                                                   cudaMemcpyDeviceToHost, own->streams[stream]));
    if (!fault) fault = cuda_fault(cudaStreamSynchronize(own->streams[stream]));
    if (!fault) *sum += found;
    return fault;
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
