#include "executor/half.h"
#include "core/divisor.h"
#include "executor/cpu/array.h"
#include "executor/merged.h"
#include "plan/lower/groups.h"

#include <assert.h>

// The same back end with ELEMENT_COMPUTE in 16 bits: what a kernel reads is widened to floats
// before it runs, and what it wrote is rounded behind it, once an operator or a group of them that
// runs as one, as on devices that compute so. Memory is that of the plan; the wide copies of one
// call are workspaces. With REAL = double it is not offered.

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
    assert(slot >= 0 && slot < OP_INPUT_MAX + OP_OUTPUT_MAX);
    if (array->element != ELEMENT_COMPUTE || !array->data) return true;
    int64_t count = call_held_elements(call, array);
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

// Whether the first output of a part of a norm is not there yet, but what it keeps meanwhile.
static bool keeps_first(const struct kernel_call *call)
{
    return call->part > 0 && call->part < 2 * cpu_norm_exchanges(call->op);
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
    if (keeps_first(call) && call->outputs[0].row_stride)
        return "a norm that ranks share writes rows that follow one another";
    if (wide.outputs[0].data != call->outputs[0].data) wide.kept = call->outputs[0].data;
    const char *fault = is_done ? cpu_run(device, stream, &wide)
                                : cpu_no_memory((struct cpu_device *)(void *)device);
    for (int i = keeps_first(call) ? 1 : 0; i < call->output_count && !fault; i++) {
        const struct kernel_array *array = &call->outputs[i];
        if (array->data == wide.outputs[i].data) continue;
        struct row_run rows = rows_of(array, call_held_elements(call, array));
        for (int64_t r = 0; r < rows.count; r++)
            round_all(own, rows.each, (const float *)wide.outputs[i].data + r * rows.each,
                      (uint16_t *)array->data + r * array->row_stride);
    }
    return fault;
}

// Arrays of operators that run as one, each of them wide once: whoever names the same numbers gets
// the same copy. Between such operators numbers are as wide as kernels compute; what passes is no
// memory of the plan, and its address here no more than a name.
enum { WIDE_MAX = GROUP_MEMBERS_MAX * (OP_INPUT_MAX + OP_OUTPUT_MAX), WIDE_ALIGNMENT = 16 };

struct wide_array {
    struct kernel_array there;  // in 16 bits
    int64_t count, first;       // elements, and where in the scratch
    bool is_result;
};

struct wide_group {
    struct wide_array arrays[WIDE_MAX];
    int count;
    int64_t elements;
};

static bool is_passing(const struct kernel_call *calls, int count, const void *data)
{
    bool is_sum = calls[0].op->kind == OP_CONTRACT;
    for (int i = 0; i < count; i++) {
        const struct kernel_array *result = &calls[i].outputs[0];
        bool is_nowhere = calls[i].passing & 1 && (is_sum || array_has_rows(result));
        if (is_nowhere && result->data == data) return true;
    }
    return false;
}

static bool is_same(const struct kernel_array *a, const struct kernel_array *b)
{
    return a->data == b->data && a->row_stride == b->row_stride;
}

// The array's place among the wide ones, which it gets if it has none; -1: it stays as it is.
static int find_wide(struct wide_group *group, const struct kernel_call *call,
                     const struct kernel_array *array)
{
    if (array->element != ELEMENT_COMPUTE || !array->data) return -1;
    int64_t count = call_held_elements(call, array);
    for (int i = 0; i < group->count; i++) {
        if (is_same(&group->arrays[i].there, array) && group->arrays[i].count == count) return i;
    }
    assert(group->count < WIDE_MAX && "as many as a group has operands");
    group->arrays[group->count] =
        (struct wide_array){.there = *array, .count = count, .first = group->elements};
    group->elements += round_up(count, WIDE_ALIGNMENT);
    return group->count++;
}

// From an array's first byte to behind its last.
static const char *end_of(const struct wide_array *array)
{
    struct row_run rows = rows_of(&array->there, array->count);
    int64_t elements = (rows.count - 1) * array->there.row_stride + rows.each;
    return (const char *)array->there.data + elements * (int64_t)sizeof(uint16_t);
}

// No result has numbers that another array has, too, unless they are columns of the same rows.
static bool is_apart(const struct wide_group *group)
{
    for (int i = 0; i < group->count; i++) {
        for (int j = 0; j < group->count; j++) {
            const struct wide_array *a = &group->arrays[i], *b = &group->arrays[j];
            bool are_columns =
                a->there.row_stride > 0 && a->there.row_stride == b->there.row_stride;
            if (i == j || !a->is_result || are_columns) continue;
            const char *first = a->there.data, *other = b->there.data;
            if (first < end_of(b) && other < end_of(a)) return false;
        }
    }
    return true;
}

static void widen_group(const struct cpu_device *device, const struct wide_group *group,
                        float *scratch)
{
    for (int i = 0; i < group->count; i++) {
        const struct wide_array *array = &group->arrays[i];
        struct row_run rows = rows_of(&array->there, array->count);
        for (int64_t r = 0; r < rows.count; r++)
            widen_all(device, rows.each,
                      (const uint16_t *)array->there.data + r * array->there.row_stride,
                      scratch + array->first + r * rows.each);
    }
}

static void round_group(const struct cpu_device *device, const struct wide_group *group,
                        const float *scratch)
{
    for (int i = 0; i < group->count; i++) {
        const struct wide_array *array = &group->arrays[i];
        struct row_run rows = rows_of(&array->there, array->count);
        for (int64_t r = 0; r < rows.count && array->is_result; r++)
            round_all(device, rows.each, scratch + array->first + r * rows.each,
                      (uint16_t *)array->there.data + r * array->there.row_stride);
    }
}

// Numbers are rounded once, behind all of them.
static const char *run_wide(struct device *device, enum stream stream,
                            const struct kernel_call *calls, int count)
{
    struct cpu_device *own = own_of(device);
    struct wide_group group = {.count = 0};
    struct kernel_call wide[GROUP_MEMBERS_MAX];
    int place[GROUP_MEMBERS_MAX][OP_INPUT_MAX + OP_OUTPUT_MAX] = {{0}};
    assert(count <= GROUP_MEMBERS_MAX);
    for (int i = 0; i < count; i++) {
        wide[i] = calls[i];
        wide[i].merged = false;
        for (int k = 0; k < calls[i].input_count + calls[i].output_count; k++) {
            bool is_result = k >= calls[i].input_count;
            const struct kernel_array *array =
                is_result ? &calls[i].outputs[k - calls[i].input_count] : &calls[i].inputs[k];
            bool passes = is_passing(calls, count, array->data);
            place[i][k] = passes ? -1 : find_wide(&group, &calls[i], array);
            if (place[i][k] >= 0) group.arrays[place[i][k]].is_result |= is_result;
        }
    }
    assert(is_apart(&group));
    float *scratch = cpu_scratch(own, SCRATCH_WIDE, group.elements * (int64_t)sizeof(float) + 1);
    if (!scratch) return cpu_no_memory((struct cpu_device *)(void *)device);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < wide[i].input_count + wide[i].output_count; k++) {
            if (place[i][k] < 0) continue;
            struct kernel_array *array = k < wide[i].input_count
                                             ? &wide[i].inputs[k]
                                             : &wide[i].outputs[k - wide[i].input_count];
            array->data = scratch + group.arrays[place[i][k]].first;
            array->row_stride = 0;
        }
    }
    widen_group(own, &group, scratch);
    const char *fault = cpu_run_joined(device, stream, wide, count);
    if (!fault) round_group(own, &group, scratch);
    return fault;
}

// What is one GEMM is one operator, which its biases are added to.
const char *cpu_half_run_joined(struct device *device, enum stream stream,
                                const struct kernel_call *calls, int count)
{
    struct kernel_call folded[MERGED_CALLS];
    if (!calls[0].merged) return run_wide(device, stream, calls, count);
    int left = merged_fold(calls, count, sizeof(uint16_t), sizeof(float), folded);
    if (left == 2 && folded[1].op->kind == OP_ADD) return run_wide(device, stream, folded, left);
    const char *fault = left ? NULL : MERGED_APART;
    for (int i = 0; i < left && !fault; i++)
        fault = cpu_half_run(device, stream, &folded[i]);
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
