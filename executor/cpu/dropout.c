#include "executor/cpu/array.h"
#include "executor/cpu/image.h"
#include "executor/cpu/random_words.h"

// Dropout with a mask of bytes, drawn by the element's index in the whole.

// Index in the whole of the first element of a run along the last dim.
static int64_t whole_index(const struct sequence_order *order, const struct kernel_array *array,
                           int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int i = array->rank - 1; i >= 0; i--) {
        int64_t place = array->first[i] + at % array->sizes[i];
        if (array->dims[i] == DIM_SEQ) place = sequence_place(order, place);
        index += place * stride;
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

static void draw(uint64_t key, double ratio, int64_t index, int64_t count, unsigned char *mask)
{
    enum { PIECE = 1024 };
    uint32_t words[PIECE], threshold = dropout_threshold(ratio);
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t piece = count - first < PIECE ? count - first : PIECE;
        cpu_random_words(key, (uint64_t)(index + first), piece, words);
        for (int64_t i = 0; i < piece; i++)
            mask[first + i] = words[i] >= threshold;
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
        draw(call->key, ratio, whole_index(&call->order, in, i), width, mask + i);
    apply(elements, (REAL)(1 / (1 - ratio)), mask, in->data, call->outputs[0].data);
    return NULL;
}

// Whole samples: x -> y and a byte each; backward d_y and these -> d_x.
const char *cpu_drop_path(const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    const struct kernel_array *in = &call->inputs[0], *out = &call->outputs[0];
    const struct kernel_array *masks = is_backward ? &call->inputs[1] : &call->outputs[1];
    double ratio = call->op->work.scalar;
    int64_t samples = array_size(in, DIM_BATCH);
    if (masks->element != ELEMENT_BYTE || array_elements(masks) != samples)
        return "a byte for each sample says what is dropped";
    if (!out->data || samples == 0) return NULL;
    unsigned char *mask = masks->data;
    if (!is_backward) draw(call->key, ratio, array_first(in, DIM_BATCH), samples, mask);
    if (is_backward) call_begin_sum(call, 0);
    int64_t each = array_elements(in) / samples;
    for (int64_t i = 0; i < samples * each; i++) {
        int64_t sample = i / each;
        REAL value = ((const REAL *)in->data)[i] * (REAL)(mask[sample] / (1 - ratio));
        REAL *to = (REAL *)out->data + i;
        *to = is_backward ? *to + value : value;
    }
    return NULL;
}
