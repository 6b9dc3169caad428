#include "executor/cpu/cpu.h"

#include <assert.h>
#include <string.h>

// Copies between boxes of arrays: what messages and changes of layout are packed and unpacked with.

static int64_t size_of(enum element element)
{
    if (element == ELEMENT_BYTE) return 1;
    return element == ELEMENT_INT64 ? 8 : (int64_t)sizeof(REAL);
}

FAST static void combine_reals(enum box_combine combine, int64_t count, REAL *to, int64_t to_step,
                               const REAL *from, int64_t from_step)
{
    if (combine == BOX_MAX) {
        for (int64_t i = 0; i < count; i++) {
            REAL x = from[i * from_step], *y = &to[i * to_step];
            *y = x > *y ? x : *y;
        }
    } else if (to_step == 1 && from_step == 1) {
        VECTOR for (int64_t i = 0; i < count; i++) to[i] += from[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i * to_step] += from[i * from_step];
    }
}

struct boxing {
    struct box_copy copy;
    int64_t bytes;             // of an element
    box_combine_one *combine;  // NULL: reals
};

static void copy_run(const struct boxing *boxing, char *to, const char *from)
{
    const struct box_copy *copy = &boxing->copy;
    int last = copy->rank - 1;
    int64_t bytes = boxing->bytes, count = copy->sizes[last];
    int64_t to_step = copy->to_strides[last], from_step = copy->from_strides[last];
    if (copy->combine != BOX_SET && !boxing->combine) {
        combine_reals(copy->combine, count, (REAL *)(void *)to, to_step,
                      (const REAL *)(const void *)from, from_step);
    } else if (copy->combine != BOX_SET) {
        for (int64_t i = 0; i < count; i++)
            boxing->combine(copy->combine, to + i * to_step * bytes, from + i * from_step * bytes);
    } else if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(count * bytes));
    } else {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step * bytes, from + i * from_step * bytes, (size_t)bytes);
    }
}

static void copy_dim(const struct boxing *boxing, int dim, char *to, const char *from)
{
    const struct box_copy *copy = &boxing->copy;
    assert(dim < TENSOR_RANK_MAX);
    if (dim == copy->rank - 1) {
        copy_run(boxing, to, from);
        return;
    }
    for (int64_t i = 0; i < copy->sizes[dim]; i++) {
        copy_dim(boxing, dim + 1, to + i * copy->to_strides[dim] * boxing->bytes,
                 from + i * copy->from_strides[dim] * boxing->bytes);
    }
}

// Joins dims that lie one after another on both sides, so that runs are long.
static struct box_copy joined(const struct box_copy *copy)
{
    struct box_copy result = *copy;
    int kept = 0;
    for (int i = 1; i < copy->rank; i++) {
        bool joins = result.to_strides[kept] == copy->to_strides[i] * copy->sizes[i] &&
                     result.from_strides[kept] == copy->from_strides[i] * copy->sizes[i];
        kept += !joins;
        result.sizes[kept] = joins ? result.sizes[kept] * copy->sizes[i] : copy->sizes[i];
        result.to_strides[kept] = copy->to_strides[i];
        result.from_strides[kept] = copy->from_strides[i];
    }
    result.rank = copy->rank > 0 ? kept + 1 : 1;
    if (copy->rank == 0) result.sizes[0] = result.to_strides[0] = result.from_strides[0] = 1;
    return result;
}

const char *cpu_box_of(const struct box_copy *copy, int64_t element_bytes, box_combine_one *combine)
{
    bool is_real = copy->element == ELEMENT_COMPUTE || copy->element == ELEMENT_FP32;
    if (copy->combine != BOX_SET && !is_real) return "only reals are combined";
    for (int i = 0; i < copy->rank; i++) {
        if (copy->sizes[i] <= 0) return NULL;
    }
    struct boxing boxing = {joined(copy), element_bytes, combine};
    copy_dim(&boxing, 0, copy->to, copy->from);
    return NULL;
}

const char *cpu_box(struct device *device, enum stream stream, const struct box_copy *copy)
{
    (void)device;
    (void)stream;
    return cpu_box_of(copy, size_of(copy->element), NULL);
}
