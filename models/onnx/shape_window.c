#include "models/onnx/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// A window that moves over the dimensions after the first two (sample, channel).
struct onnx_window {
    int rank;  // of the window: 2 for images
    int64_t kernel[RANK_MOST], stride[RANK_MOST], dilation[RANK_MOST];
    int64_t pad[2 * RANK_MOST];  // all at the start, then all at the end
};

// Windows beyond this are no layer but a damaged file, and would overflow below.
static const int64_t EXTENT_MOST = INT64_C(1) << 31;

static bool read_extents(const struct onnx_model *model, const struct onnx_call *call,
                         const char *name, int count, int64_t least, int64_t fallback,
                         int64_t *extents)
{
    int found = 0;
    const int64_t *ints = attribute_ints(call, name, &found);
    if (found && found != count) {
        return call_fail(model, call, "attribute %s has %d values, %d are wanted", name, found,
                         count);
    }
    for (int i = 0; i < count; i++) {
        extents[i] = found ? ints[i] : fallback;
        if (extents[i] < least || extents[i] > EXTENT_MOST) {
            return call_fail(model, call, "%s of %" PRId64 ", at least %" PRId64 " is wanted", name,
                             extents[i], least);
        }
    }
    return true;
}

static bool read_window(const struct onnx_model *model, const struct onnx_call *call,
                        const struct onnx_value *input, struct onnx_window *window)
{
    if (input->rank < 3) {
        return call_fail(model, call, "input %s has %d dimensions, at least 3 are wanted",
                         input->name, input->rank);
    }
    int rank = window->rank = input->rank - 2;
    return read_extents(model, call, "strides", rank, 1, 1, window->stride) &&
           read_extents(model, call, "dilations", rank, 1, 1, window->dilation) &&
           read_extents(model, call, "pads", 2 * rank, 0, 0, window->pad);
}

static bool slide(const struct onnx_model *model, const struct onnx_call *call,
                  const struct onnx_window *window, const int64_t *sizes, int64_t *results)
{
    bool is_same = attribute_is(call, "auto_pad", "SAME_UPPER") ||
                   attribute_is(call, "auto_pad", "SAME_LOWER");
    bool is_valid = attribute_is(call, "auto_pad", "VALID");
    bool rounds_up = attribute_int(call, "ceil_mode", 0) != 0;
    for (int i = 0; i < window->rank; i++) {
        int64_t stride = window->stride[i], size = sizes[i];
        assert(stride >= 1);
        int64_t extent = window->dilation[i] * (window->kernel[i] - 1) + 1;
        int64_t pads = is_valid ? 0 : window->pad[i] + window->pad[window->rank + i];
        if (is_same) {
            results[i] = (size + stride - 1) / stride;
            continue;
        }
        if (size + pads < extent) {
            return call_fail(model, call,
                             "dimension %d of %" PRId64 " is smaller than its window of %" PRId64,
                             i + 2, size + pads, extent);
        }
        int64_t room = size + pads - extent;
        results[i] = (rounds_up ? room + stride - 1 : room) / stride + 1;
        // A last window that would start in the padding at the end is left out.
        if (rounds_up && !is_valid && (results[i] - 1) * stride >= size + window->pad[i]) {
            results[i]--;
        }
    }
    return true;
}

// Padding in front of the image; `results` are its sides' sizes behind the window.
static int64_t pad_before(const struct onnx_call *call, const struct onnx_window *window, int i,
                          int64_t wide, int64_t narrow)
{
    bool is_upper = attribute_is(call, "auto_pad", "SAME_UPPER");
    bool is_lower = attribute_is(call, "auto_pad", "SAME_LOWER");
    if (attribute_is(call, "auto_pad", "VALID")) return 0;
    if (!is_upper && !is_lower) return window->pad[i];
    int64_t extent = window->dilation[i] * (window->kernel[i] - 1) + 1;
    int64_t pads = (narrow - 1) * window->stride[i] + extent - wide;
    return pads <= 0 ? 0 : (pads + is_lower) / 2;
}

// What the call says of height and width to who splits them, the last two dimensions of an image.
static void keep_windows(struct onnx_call *call, const struct onnx_window *window,
                         const int64_t *wide, const int64_t *narrow)
{
    for (int i = 0; i < window->rank; i++) {
        int dim = WINDOW_DIMS - window->rank + i;
        if (dim < 0) continue;
        call->windows[dim] =
            (struct window){.taps = window->kernel[i],
                            .stride = window->stride[i],
                            .dilation = window->dilation[i],
                            .pad = pad_before(call, window, i, wide[i], narrow[i])};
    }
}

static int64_t product(const int64_t *factors, int count)
{
    double exact = 1;
    int64_t result = 1;
    for (int i = 0; i < count; i++) {
        exact *= (double)factors[i];
        if (exact > 0x1p62) return INT64_C(1) << 62;
        result *= factors[i];
    }
    return result;
}

// The kernel is in the weight's shape; the attribute, where there is one, has to agree.
static bool read_weight(const struct onnx_model *model, const struct onnx_call *call,
                        struct onnx_window *window)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *weight = call_input(model, call, 1);
    if (!read_window(model, call, input, window)) return false;
    if (weight->rank != input->rank) {
        return call_fail(model, call, "weight %s has %d dimensions, %d are wanted", weight->name,
                         weight->rank, input->rank);
    }
    int64_t stated[RANK_MOST];
    if (!read_extents(model, call, "kernel_shape", window->rank, 1, 1, stated)) return false;
    for (int i = 0; i < window->rank; i++) {
        window->kernel[i] = weight->dims[i + 2];
        bool is_stated = attribute_has(call, "kernel_shape");
        if (window->kernel[i] < 1 || window->kernel[i] > EXTENT_MOST ||
            (is_stated && stated[i] != window->kernel[i])) {
            return call_fail(model, call, "weight %s has a kernel of %" PRId64 " in dimension %d",
                             weight->name, window->kernel[i], i + 2);
        }
    }
    return true;
}

static bool check_bias(const struct onnx_model *model, const struct onnx_call *call,
                       int64_t channels)
{
    const struct onnx_value *bias = call_input(model, call, 2);
    if (!bias || (bias->rank == 1 && bias->dims[0] == channels)) return true;
    return call_fail(model, call, "bias %s has not the %" PRId64 " elements of the output channels",
                     bias->name, channels);
}

bool shape_conv(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *weight = call_input(model, call, 1);
    struct onnx_window window = {0};
    int64_t group = attribute_int(call, "group", 1), dims[RANK_MOST] = {0};
    if (!read_weight(model, call, &window)) return false;
    if (group < 1 || input->dims[1] % group != 0 || weight->dims[0] % group != 0 ||
        weight->dims[1] != input->dims[1] / group) {
        return call_fail(model, call,
                         "weight %s is for %" PRId64 " channels in %" PRId64
                         " groups, input %s has %" PRId64,
                         weight->name, weight->dims[1], group, input->name, input->dims[1]);
    }
    dims[0] = input->dims[0];
    dims[1] = weight->dims[0];
    if (!check_bias(model, call, dims[1])) return false;
    if (!slide(model, call, &window, input->dims + 2, dims + 2)) return false;
    if (!set_output(model, call, 0, input->element, input->rank, dims)) return false;
    keep_windows(call, &window, input->dims + 2, dims + 2);
    double outputs = (double)product(dims, input->rank);
    call->flop =
        2 * outputs * (double)weight->dims[1] * (double)product(window.kernel, window.rank);
    return true;
}

bool shape_conv_transpose(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *weight = call_input(model, call, 1);
    struct onnx_window window = {0};
    int64_t group = attribute_int(call, "group", 1), extra[RANK_MOST], dims[RANK_MOST];
    int stated_count = 0;
    if (!read_weight(model, call, &window)) return false;
    const int64_t *stated = attribute_ints(call, "output_shape", &stated_count);
    if (!read_extents(model, call, "output_padding", window.rank, 0, 0, extra)) return false;
    if (group < 1 || weight->dims[0] != input->dims[1] || weight->dims[1] > EXTENT_MOST ||
        group > EXTENT_MOST) {
        return call_fail(model, call,
                         "weight %s is for %" PRId64 " channels, input %s has %" PRId64,
                         weight->name, weight->dims[0], input->name, input->dims[1]);
    }
    dims[0] = input->dims[0];
    dims[1] = weight->dims[1] * group;
    if (!check_bias(model, call, dims[1])) return false;
    bool is_same = attribute_is(call, "auto_pad", "SAME_UPPER") ||
                   attribute_is(call, "auto_pad", "SAME_LOWER");
    for (int i = 0; i < window.rank; i++) {
        int64_t size = input->dims[i + 2];
        int64_t extent = window.dilation[i] * (window.kernel[i] - 1) + 1;
        if (size < 1 || size > EXTENT_MOST || extent > EXTENT_MOST) {
            return call_fail(model, call, "dimension %d of input %s is %" PRId64, i + 2,
                             input->name, size);
        }
        dims[i + 2] = window.stride[i] * (size - 1) + extra[i] + extent - window.pad[i] -
                      window.pad[window.rank + i];
        if (is_same) dims[i + 2] = size * window.stride[i];
        if (stated_count >= window.rank) dims[i + 2] = stated[stated_count - window.rank + i];
    }
    keep_windows(call, &window, dims + 2, input->dims + 2);
    double inputs = (double)input->elements;
    call->flop = 2 * inputs * (double)weight->dims[1] * (double)product(window.kernel, window.rank);
    return set_output(model, call, 0, input->element, input->rank, dims);
}

bool shape_pool(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    struct onnx_window window = {0};
    int64_t dims[RANK_MOST];
    if (!read_window(model, call, input, &window)) return false;
    if (!attribute_has(call, "kernel_shape")) {
        return call_fail(model, call, "there is no attribute kernel_shape");
    }
    if (!read_extents(model, call, "kernel_shape", window.rank, 1, 1, window.kernel)) return false;
    memcpy(dims, input->dims, 2 * sizeof *dims);
    if (!slide(model, call, &window, input->dims + 2, dims + 2)) return false;
    keep_windows(call, &window, input->dims + 2, dims + 2);
    call->flop = (double)product(dims, input->rank) * (double)product(window.kernel, window.rank);
    return set_output(model, call, 0, input->element, input->rank, dims) &&
           set_output(model, call, 1, ELEMENT_INT64, input->rank, dims);
}

bool shape_global_pool(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    if (input->rank < 3) {
        return call_fail(model, call, "input %s has %d dimensions, at least 3 are wanted",
                         input->name, input->rank);
    }
    int64_t dims[RANK_MOST];
    for (int i = 0; i < input->rank; i++)
        dims[i] = i < 2 ? input->dims[i] : 1;
    call->flop = (double)input->elements;
    return set_output(model, call, 0, input->element, input->rank, dims);
}

// Resize has (data, roi, scales, sizes) since opset 11, (data, scales) in 10; Upsample, its older
// name, has scales as an input since 9 and as an attribute before.
bool shape_resize(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *sizes = call_input(model, call, 3);
    const struct onnx_value *scales = call_input(model, call, call->input_count == 2 ? 1 : 2);
    int axis_count = 0;
    const int64_t *axes = attribute_ints(call, "axes", &axis_count);
    const struct onnx_value *source = sizes && sizes->elements ? sizes : scales;
    int count = axis_count ? axis_count : input->rank;
    if (!source || !source->numbers || source->elements != count) {
        return call_fail(model, call, "neither scales nor sizes are a constant of %d elements",
                         count);
    }
    int64_t dims[RANK_MOST];
    memcpy(dims, input->dims, (size_t)input->rank * sizeof *dims);
    for (int i = 0; i < count; i++) {
        int axis = i;
        if (axis_count && !axis_of(model, call, axes[i], input->rank, &axis)) return false;
        double size = source->numbers[i];
        if (source != sizes) size *= (double)input->dims[axis];
        if (!(size >= 1 && size < 0x1p31)) {
            return call_fail(model, call, "dimension %d would be resized to %g", axis, size);
        }
        // The first dimension of a model made for batch 1 keeps what the batch made of it.
        bool is_batch = source == sizes && axis == 0 && size == 1 && model->has_batch;
        if (!is_batch) dims[axis] = (int64_t)size;
    }
    return set_output(model, call, 0, input->element, input->rank, dims);
}
