#include "models/onnx/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// How much smaller than the input a constant shape is: the batch, where the model was made for
// batch 1 and is read with another.
static bool lacks_batch(const struct onnx_model *model, const struct onnx_value *input,
                        const int64_t *dims, int rank)
{
    assert(rank >= 0 && rank <= RANK_MOST);
    double elements = 1;
    for (int i = 0; i < rank; i++)
        elements *= (double)dims[i];
    return model->has_batch && input->follows_batch &&
           elements * (double)model->options.batch == (double)input->elements;
}

// Reshape's zeros copy a dimension, one -1 takes what is left. A model exported for batch 1 has
// that batch as a number in the shape; what follows from the batch then gets the new one: as first
// entry where that is 1, else multiplied into the first entry where the product falls short by
// just the batch (12 heads of one sample in one dimension).
static bool read_shape(const struct onnx_model *model, const struct onnx_call *call,
                       const struct onnx_value *input, int64_t *dims, int rank, int *free_axis)
{
    bool copies = attribute_int(call, "allowzero", 0) == 0;
    *free_axis = -1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0 && copies) {
            if (i >= input->rank) {
                return call_fail(model, call,
                                 "entry %d of the shape copies a dimension that %s "
                                 "does not have",
                                 i, input->name);
            }
            dims[i] = input->dims[i];
        } else if (dims[i] == -1 && *free_axis < 0) {
            *free_axis = i;
        } else if (dims[i] < 0) {
            return call_fail(model, call, "entry %d of the shape is %" PRId64, i, dims[i]);
        }
    }
    if (!model->has_batch || !input->follows_batch || rank == 0) return true;
    if (dims[0] == 1 && (*free_axis >= 0 || lacks_batch(model, input, dims, rank))) {
        dims[0] = model->options.batch;
    } else if (*free_axis < 0 && lacks_batch(model, input, dims, rank)) {
        dims[0] *= model->options.batch;
    }
    return true;
}

bool shape_reshape(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *entries = NULL;
    int rank = 0, free_axis = -1;
    if (!call_ints(model, call, "shape", 1, &entries, &rank)) return false;
    if (rank < 0 || rank > RANK_MOST) return call_fail(model, call, "there is no shape for it");
    int64_t dims[RANK_MOST], product = 1;
    if (rank) memcpy(dims, entries, (size_t)rank * sizeof *dims);
    if (!read_shape(model, call, input, dims, rank, &free_axis)) return false;
    bool fits = true;
    for (int i = 0; i < rank; i++) {
        if (i != free_axis) fits = fits && !__builtin_mul_overflow(product, dims[i], &product);
    }
    if (free_axis >= 0) {
        fits = fits && product > 0 && input->elements % product == 0;
        if (fits) dims[free_axis] = input->elements / product;
    } else {
        fits = fits && product == input->elements;
    }
    if (!fits) {
        return call_fail(model, call, "the %" PRId64 " elements of %s do not fit the shape%s",
                         input->elements, input->name, free_axis < 0 ? "" : " with one entry free");
    }
    return set_output(model, call, 0, input->element, rank, dims);
}

bool shape_flatten(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int64_t axis = attribute_int(call, "axis", 1), dims[] = {1, 1};
    if (axis < -input->rank || axis > input->rank) {
        return call_fail(model, call, "axis %" PRId64 " is out of range for rank %d", axis,
                         input->rank);
    }
    if (axis < 0) axis += input->rank;
    for (int i = 0; i < input->rank; i++)
        dims[i >= axis] *= input->dims[i];
    return set_output(model, call, 0, input->element, 2, dims);
}

static bool mark_axes(const struct onnx_model *model, const struct onnx_call *call,
                      const int64_t *axes, int count, int rank, bool *is_marked)
{
    assert(rank >= 0 && rank <= RANK_MOST);
    for (int i = 0; i < count; i++) {
        int axis = 0;
        if (!axis_of(model, call, axes[i], rank, &axis)) return false;
        if (is_marked[axis]) return call_fail(model, call, "axis %d is given twice", axis);
        is_marked[axis] = true;
    }
    return true;
}

bool shape_squeeze(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *axes = NULL;
    int count = 0, rank = 0;
    bool is_taken[RANK_MOST] = {0};
    int64_t dims[RANK_MOST];
    if (!call_ints(model, call, "axes", 1, &axes, &count)) return false;
    if (!mark_axes(model, call, axes, count, input->rank, is_taken)) return false;
    for (int i = 0; i < input->rank; i++) {
        if (count < 0) is_taken[i] = input->dims[i] == 1;
        if (!is_taken[i]) {
            dims[rank++] = input->dims[i];
        } else if (input->dims[i] != 1) {
            return call_fail(model, call, "dimension %d of %s is %" PRId64 ", only 1 can go", i,
                             input->name, input->dims[i]);
        }
    }
    return set_output(model, call, 0, input->element, rank, dims);
}

bool shape_unsqueeze(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *axes = NULL;
    int count = 0, from = 0;
    bool is_new[RANK_MOST] = {0};
    int64_t dims[RANK_MOST];
    if (!call_ints(model, call, "axes", 1, &axes, &count)) return false;
    if (count < 0) return call_fail(model, call, "there are no axes");
    if (count > RANK_MOST - input->rank) {
        return call_fail(model, call, "the result has more than %d dimensions", RANK_MOST);
    }
    int rank = input->rank + count;
    if (!mark_axes(model, call, axes, count, rank, is_new)) return false;
    for (int i = 0; i < rank; i++)
        dims[i] = is_new[i] ? 1 : input->dims[from++];
    return set_output(model, call, 0, input->element, rank, dims);
}

bool shape_transpose(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int count = 0;
    const int64_t *order = attribute_ints(call, "perm", &count);
    bool is_used[RANK_MOST] = {0};
    int64_t dims[RANK_MOST];
    if (count && count != input->rank) {
        return call_fail(model, call, "perm has %d entries, %s has %d dimensions", count,
                         input->name, input->rank);
    }
    if (!mark_axes(model, call, order, count, input->rank, is_used)) return false;
    for (int i = 0; i < input->rank; i++) {
        int64_t axis = count ? order[i] : input->rank - 1 - i;
        dims[i] = input->dims[axis < 0 ? axis + input->rank : axis];
    }
    return set_output(model, call, 0, input->element, input->rank, dims);
}

bool shape_expand(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    struct onnx_value target = {.name = "shape"};
    int rank = input->rank;
    int64_t dims[RANK_MOST];
    if (!call_ints(model, call, "", 1, &target.dims, &target.rank)) return false;
    if (target.rank < 0 || target.rank > RANK_MOST) {
        return call_fail(model, call, "there is no shape for it");
    }
    memcpy(dims, input->dims, (size_t)rank * sizeof *dims);
    return broadcast(model, call, &rank, dims, &target) &&
           set_output(model, call, 0, input->element, rank, dims);
}

bool shape_tile(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *repeats = NULL;
    int count = 0;
    int64_t dims[RANK_MOST];
    if (!call_ints(model, call, "", 1, &repeats, &count)) return false;
    if (count != input->rank) {
        return call_fail(model, call, "%d repeats for %d dimensions", count, input->rank);
    }
    for (int i = 0; i < count; i++) {
        if (__builtin_mul_overflow(input->dims[i], repeats[i], &dims[i])) dims[i] = INT64_MAX;
    }
    return set_output(model, call, 0, input->element, input->rank, dims);
}

static bool shape_blocks(const struct onnx_model *model, struct onnx_call *call, bool to_space)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int64_t block = attribute_int(call, "blocksize", 0);
    if (input->rank != 4 || block < 1 || block > 1 << 15) {
        return call_fail(model, call,
                         "%s has %d dimensions in blocks of %" PRId64
                         ", 4 and a positive block are wanted",
                         input->name, input->rank, block);
    }
    const int64_t *from = input->dims;
    bool fits =
        to_space ? from[1] % (block * block) == 0 : from[2] % block == 0 && from[3] % block == 0;
    if (!fits) return call_fail(model, call, "%s is not made of whole blocks", input->name);
    int64_t dims[] = {from[0], from[1] / (block * block), from[2] * block, from[3] * block};
    int64_t depth[] = {from[0], from[1] * block * block, from[2] / block, from[3] / block};
    return set_output(model, call, 0, input->element, 4, to_space ? dims : depth);
}

bool shape_depth_to_space(const struct onnx_model *model, struct onnx_call *call)
{
    return shape_blocks(model, call, true);
}

bool shape_space_to_depth(const struct onnx_model *model, struct onnx_call *call)
{
    return shape_blocks(model, call, false);
}

bool shape_shape(const struct onnx_model *model, struct onnx_call *call)
{
    int64_t rank = call_input(model, call, 0)->rank;
    int64_t start = attribute_int(call, "start", 0), end = attribute_int(call, "end", rank);
    if (start < 0) start = start < -rank ? 0 : start + rank;
    if (end < 0) end += rank;
    if (end > rank) end = rank;
    int64_t count = end > start ? end - start : 0;
    return set_output(model, call, 0, ELEMENT_INT64, 1, &count);
}

bool shape_size(const struct onnx_model *model, struct onnx_call *call)
{
    return set_output(model, call, 0, ELEMENT_INT64, 0, NULL);
}
