#include "executor/cpu/array.h"

// Dropout with a mask of bytes, drawn by the element's index in the whole.

// Index in the whole of the first element of a run along the last dim.
static int64_t whole_index(const struct kernel_array *array, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int i = array->rank - 1; i >= 0; i--) {
        index += (array->first[i] + at % array->sizes[i]) * stride;
        at /= array->sizes[i];
        stride *= array->whole[i];
    }
    return index;
}

FAST static void apply(int64_t count, REAL factor, const unsigned char *mask, const REAL *x,
                       REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] = x[i] * (factor * (REAL)mask[i]);
}

// Four neighbours share a counter.
static void draw(uint64_t key, double ratio, int64_t index, int64_t count, unsigned char *mask)
{
    double threshold = ratio * 4294967296.0;
    for (int64_t i = 0; i < count;) {
        struct random_bits bits = random_at(key, (uint64_t)(index + i) / 4);
        int64_t word = (index + i) % 4;
        for (; word < 4 && i < count; word++, i++)
            mask[i] = bits.word[word] >= threshold;
    }
}

const char *cpu_dropout(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *in = &call->inputs[0];
    bool is_forward = call->op->phase == PHASE_FORWARD;
    const struct kernel_array *masks = is_forward ? &call->outputs[1] : &call->inputs[1];
    int64_t width = array_last(in), elements = array_elements(in);
    if (masks->element != ELEMENT_BYTE) return "a dropout mask is of bytes";
    if (array_is_ragged(in) && call->routing) return "dropout inside experts";
    unsigned char *mask = masks->data;
    double ratio = call->op->dropout_ratio;
    for (int64_t i = 0; i < elements && is_forward; i += width)
        draw(call->key, ratio, whole_index(in, i), width, mask + i);
    apply(elements, (REAL)(1 / (1 - ratio)), mask, in->data, call->outputs[0].data);
    return NULL;
}
