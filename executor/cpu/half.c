#include "executor/half.h"
#include "executor/cpu/array.h"
#include "executor/merged.h"

#include <assert.h>

// The same back end with ELEMENT_COMPUTE in 16 bits: what a kernel reads is widened to floats
// before it runs, and what it wrote is rounded behind it, once an operator, as on devices that
// compute so. Memory is that of the plan; the wide copies of one call are workspaces. With REAL =
// double it is not offered.

FAST static void widen_bf16(int64_t count, const uint16_t *from, float *to)
{
    VECTOR for (int64_t i = 0; i < count; i++) to[i] = bf16_widen(from[i]);
}
FAST static void widen_fp16(int64_t count, const uint16_t *from, float *to)
{
    VECTOR for (int64_t i = 0; i < count; i++) to[i] = fp16_widen(from[i]);
}
FAST static void round_bf16(int64_t count, const float *from, uint16_t *to)
{
    VECTOR for (int64_t i = 0; i < count; i++) to[i] = bf16_round(from[i]);
}
FAST static void round_fp16(int64_t count, const float *from, uint16_t *to)
{
    VECTOR for (int64_t i = 0; i < count; i++) to[i] = fp16_round(from[i]);
}

static struct cpu_device *own_of(struct device *device)
{
    return (struct cpu_device *)(void *)device;
}

static void widen_all(const struct cpu_device *device, int64_t count, const void *from, void *to)
{
    (device->compute == PRECISION_FP16 ? widen_fp16 : widen_bf16)(count, from, to);
}

static void round_all(const struct cpu_device *device, int64_t count, const void *from, void *to)
{
    (device->compute == PRECISION_FP16 ? round_fp16 : round_bf16)(count, from, to);
}

// Rows that lie apart, or all elements as one.
struct row_run {
    int64_t count, each;
};
static struct row_run rows_of(const struct kernel_array *array, int64_t elements)
{
    if (!array->row_stride || elements == 0) return (struct row_run){1, elements};
    return (struct row_run){array->sizes[0] * array->sizes[1], array_row(array)};
}

// Puts a wide copy in the place of an array that is not, in scratch of its own. What is there is
// copied for results, too: kernels may add to it, merge with it, or leave a part as it is.
static bool widen_array(struct cpu_device *device, const struct kernel_call *call, int slot,
                        struct kernel_array *array)
{
    if (array->element != ELEMENT_COMPUTE || !array->data) return true;
    int64_t count = cpu_held_elements(call, array);
    float *wide =
        cpu_scratch(device, (enum scratch)(SCRATCH_WIDE + slot), count * (int64_t)sizeof(float));
    if (!wide) return false;
    struct row_run rows = rows_of(array, count);
    for (int64_t i = 0; i < rows.count; i++)
        widen_all(device, rows.each, (const uint16_t *)array->data + i * array->row_stride,
                  wide + i * rows.each);
    array->data = wide;
    array->row_stride = 0;
    return true;
}

const char *cpu_half_run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    struct cpu_device *own = own_of(device);
    struct kernel_call wide = *call;
    bool is_done = true;
    for (int i = 0; i < call->input_count && is_done; i++)
        is_done = widen_array(own, call, i, &wide.inputs[i]);
    for (int i = 0; i < call->output_count && is_done; i++)
        is_done = widen_array(own, call, OP_INPUT_MAX + i, &wide.outputs[i]);
    // What is exchanged inside an operator is as wide as its result.
    assert(call->part == 0 || call->inner.element != ELEMENT_COMPUTE);
    const char *fault = is_done ? cpu_run(device, stream, &wide) : CPU_NO_MEMORY;
    for (int i = 0; i < call->output_count && !fault; i++) {
        const struct kernel_array *array = &call->outputs[i];
        if (array->data == wide.outputs[i].data) continue;
        struct row_run rows = rows_of(array, cpu_held_elements(call, array));
        for (int64_t r = 0; r < rows.count; r++)
            round_all(own, rows.each, (const float *)wide.outputs[i].data + r * rows.each,
                      (uint16_t *)array->data + r * array->row_stride);
    }
    return fault;
}

// One after another: numbers are rounded behind each operator all the same. What is one GEMM is
// one operator.
const char *cpu_half_run_joined(struct device *device, enum stream stream,
                                const struct kernel_call *calls, int count)
{
    struct kernel_call folded[MERGED_CALLS];
    const char *fault = NULL;
    if (calls[0].merged) {
        count = merged_fold(calls, count, sizeof(uint16_t), sizeof(float), folded);
        calls = folded;
        if (count == 0) fault = MERGED_APART;
    }
    for (int i = 0; i < count && !fault; i++)
        fault = cpu_half_run(device, stream, &calls[i]);
    return fault;
}

const char *cpu_half_update(struct device *device, enum stream stream,
                            const struct update_call *call)
{
    const char *fault = cpu_update(device, stream, call);
    if (!fault && call->rounded && call->part != UPDATE_DIRECTION)
        round_all(own_of(device), call->count, call->weights, call->rounded);
    return fault;
}

const char *cpu_half_round(struct device *device, enum stream stream, void *rounded,
                           const void *reals, int64_t count)
{
    (void)stream;
    round_all(own_of(device), count, reals, rounded);
    return NULL;
}

const char *cpu_half_widen(struct device *device, enum stream stream, void *reals,
                           const void *rounded, int64_t count)
{
    (void)stream;
    widen_all(own_of(device), count, rounded, reals);
    return NULL;
}

// One number of a box, for those that are combined.
static void combine_bf16(enum box_combine combine, void *to, const void *from)
{
    float a = bf16_widen(*(uint16_t *)to), b = bf16_widen(*(const uint16_t *)from);
    *(uint16_t *)to = bf16_round(combine == BOX_ADD ? a + b : b > a ? b : a);
}
static void combine_fp16(enum box_combine combine, void *to, const void *from)
{
    float a = fp16_widen(*(uint16_t *)to), b = fp16_widen(*(const uint16_t *)from);
    *(uint16_t *)to = fp16_round(combine == BOX_ADD ? a + b : b > a ? b : a);
}

const char *cpu_half_box(struct device *device, enum stream stream, const struct box_copy *copy)
{
    if (copy->element != ELEMENT_COMPUTE) return cpu_box(device, stream, copy);
    bool is_fp16 = own_of(device)->compute == PRECISION_FP16;
    return cpu_box_of(copy, sizeof(uint16_t), is_fp16 ? combine_fp16 : combine_bf16);
}
