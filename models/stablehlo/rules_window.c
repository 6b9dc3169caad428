#include "models/stablehlo/rules.h"

#include <string.h>

// Windows over images. ONNX has batch and channels in front: the dimensions are written so, and the
// result is seen in the program's order.

static void put_pads(struct hlo_op *op, Onnx__NodeProto *proto, const int64_t *pads, int rank)
{
    int64_t own[2 * RANK_MOST];
    for (int i = 0; i < rank; i++) {
        own[i] = pads[2 * i];
        own[rank + i] = pads[2 * i + 1];
    }
    draft_put_ints(op->draft, proto, "pads", own, 2 * rank);
}

// [b, 0, 1, f]: where the first two and the places stand. False and an error.
static bool read_order(const struct hlo_op *op, int token, const char *first, const char *second,
                       int rank, int *order)
{
    const struct hlo_text *text = &op->reader->text;
    int place = 0, found = 0, close = text->tokens[token].partner;
    for (int at = token + 1; at < close && place < rank; at++) {
        double number = 0;
        if (hlo_text_is(text, at, ",")) continue;
        bool is_place = hlo_text_number(text, at, ELEMENT_INT64, &number);
        int i = hlo_text_is(text, at, first)               ? 0
                : hlo_text_is(text, at, second)            ? 1
                : is_place && number >= 0 && number < rank ? (int)number + 2
                                                           : rank;
        if (i >= rank) return hlo_fail(op, "dim_numbers are none of %d dimensions", rank);
        order[i] = place++;
        found |= 1 << i;
    }
    return found == (1 << rank) - 1 || hlo_fail(op, "dim_numbers are none of %d dimensions", rank);
}

struct image_order {
    int image[RANK_MOST], kernel[RANK_MOST], result[RANK_MOST];
};

static bool read_layout(const struct hlo_op *op, int rank, struct image_order *layout)
{
    const struct hlo_text *text = &op->reader->text;
    int token = hlo_attribute(op, "dim_numbers");
    int kernel = token < 0 ? 0 : text->tokens[token].partner + 2;
    int result = kernel > 2 && kernel < op->end ? text->tokens[kernel].partner + 2 : 0;
    if (result <= kernel || result >= op->end) return hlo_fail(op, "dim_numbers are wanted");
    return read_order(op, token, "b", "f", rank, layout->image) &&
           read_order(op, kernel, "o", "i", rank, layout->kernel) &&
           read_order(op, result, "b", "f", rank, layout->result);
}

struct convolution {
    int places;
    int64_t groups;
    const int64_t *stride, *pads, *dilation, *spread;
};

// A convolution of an image between whose places zeros stand. ONNX reads the kernel from its other
// end, and counts what is cut away from the whole result.
static bool put_transposed(struct hlo_op *op, struct image_order *layout,
                           const struct convolution *c)
{
    const struct hlo_value *x = op->operands[0], *kernel = op->operands[1];
    int64_t pads[2 * RANK_MOST], more[RANK_MOST];
    int rank = x->as.rank, out = layout->kernel[0];
    layout->kernel[0] = layout->kernel[1];
    layout->kernel[1] = out;
    for (int i = 0; i < c->places; i++) {
        int64_t reach = (kernel->as.dims[layout->kernel[i + 2]] - 1) * c->dilation[i];
        pads[2 * i] = reach - c->pads[2 * i];
        pads[2 * i + 1] = reach - c->pads[2 * i + 1];
        more[i] = pads[2 * i + 1] < 0 ? -pads[2 * i + 1] : 0;
        pads[2 * i + 1] += more[i];
        bool fits = c->stride[i] == 1 && pads[2 * i] >= 0 && more[i] < c->spread[i];
        if (!fits) return hlo_fail(op, "lhs_dilate that is no transposed convolution");
    }
    if (c->groups != 1) return hlo_fail(op, "a transposed convolution in groups");
    const char *const inputs[] = {
        hlo_lay(op->draft, x, layout->image, rank, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, kernel, layout->kernel, rank, HLO_WHOLE, NULL, NULL)};
    Onnx__NodeProto *proto =
        draft_put(op->draft, "ConvTranspose", hlo_ordered(op, layout->result), 2, inputs);
    draft_put_ints(op->draft, proto, "strides", c->spread, c->places);
    draft_put_ints(op->draft, proto, "dilations", c->dilation, c->places);
    draft_put_ints(op->draft, proto, "output_padding", more, c->places);
    put_pads(op, proto, pads, c->places);
    return true;
}

bool hlo_convolution(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0), *kernel = hlo_operand(op, 1);
    struct image_order layout = {0};
    int64_t stride[RANK_MOST] = {0}, pads[2 * RANK_MOST] = {0};
    int64_t dilation[RANK_MOST] = {0}, spread[RANK_MOST] = {0};
    int64_t groups = 1, batch_groups = 1;
    if (!x || !kernel) return false;
    int rank = x->as.rank, places = rank - 2;
    if (rank < 3 || kernel->as.rank != rank || op->types[0].rank != rank || places > RANK_MOST / 2)
        return hlo_fail(op, "a batch of images and a kernel are wanted");
    if (!read_layout(op, rank, &layout) || !hlo_ints(op, "stride", places, 1, stride) ||
        !hlo_ints(op, "pad", 2 * places, 0, pads) ||
        !hlo_ints(op, "rhs_dilate", places, 1, dilation) ||
        !hlo_ints(op, "lhs_dilate", places, 1, spread) ||
        !hlo_ints(op, "feature_group_count", 1, 1, &groups) ||
        !hlo_ints(op, "batch_group_count", 1, 1, &batch_groups))
        return false;
    if (batch_groups != 1) return hlo_fail(op, "groups of the batch");
    for (int i = 0; i < places; i++) {
        if (spread[i] == 1) continue;
        const struct convolution sizes = {places, groups, stride, pads, dilation, spread};
        return put_transposed(op, &layout, &sizes);
    }
    const char *const inputs[] = {
        hlo_lay(op->draft, x, layout.image, rank, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, kernel, layout.kernel, rank, HLO_WHOLE, NULL, NULL)};
    Onnx__NodeProto *proto =
        draft_put(op->draft, "Conv", hlo_ordered(op, layout.result), 2, inputs);
    draft_put_ints(op->draft, proto, "strides", stride, places);
    draft_put_ints(op->draft, proto, "dilations", dilation, places);
    draft_put_int(op->draft, proto, "group", groups);
    put_pads(op, proto, pads, places);
    return true;
}

// Batch and channels are the first and the last dimension that no window slides along.
static bool find_places(const struct hlo_op *op, const int64_t *window, int rank, int *order)
{
    int first = -1, last = -1, count = 2;
    for (int i = 0; i < rank; i++) {
        if (window[i] != 1) continue;
        if (first < 0) first = i;
        last = i;
    }
    if (rank < 3 || first == last)
        return hlo_fail(op, "windows along batch or channels are not read");
    order[0] = first;
    order[1] = last;
    for (int i = 0; i < rank; i++)
        if (i != first && i != last) order[count++] = i;
    return true;
}

// The function of a window: the one operator of its region.
static const char *find_pool(const struct hlo_op *op)
{
    bool is_max = hlo_says(op, "stablehlo.maximum"), is_sum = hlo_says(op, "stablehlo.add");
    if (is_max != is_sum) return is_max ? "MaxPool" : "AveragePool";
    hlo_fail(op, "windows of sums and maxima alone are read");
    return NULL;
}

struct window_list {
    int64_t window[RANK_MOST], stride[RANK_MOST], dilation[RANK_MOST], spread[RANK_MOST];
    int64_t pads[2 * RANK_MOST];
};

// Sums of all up to each place, or from it on: the dimension; -1: these are others.
static int running_axis(const struct hlo_value *x, const struct window_list *w, bool *is_reverse)
{
    int axis = -1;
    for (int i = 0; i < x->as.rank; i++) {
        int64_t low = w->pads[2 * i], high = w->pads[2 * i + 1], size = x->as.dims[i];
        if (w->stride[i] != 1 || w->dilation[i] != 1) return -1;
        if (w->window[i] == 1 && low == 0 && high == 0) continue;
        bool is_it = w->window[i] == size && (low == 0 || high == 0) && low + high == size - 1;
        if (!is_it || axis >= 0) return -1;
        axis = i;
        *is_reverse = low == 0;
    }
    return axis;
}

static bool put_running(struct hlo_op *op, int axis, bool is_reverse)
{
    const char *const inputs[] = {hlo_whole(op->draft, op->operands[0]),
                                  draft_number(op->draft, ELEMENT_INT64, axis)};
    Onnx__NodeProto *proto = draft_put(op->draft, "CumSum", hlo_result(op), 2, inputs);
    draft_put_int(op->draft, proto, "reverse", is_reverse);
    return true;
}

static bool put_pool(struct hlo_op *op, const char *pool, const struct window_list *w)
{
    const struct hlo_value *x = op->operands[0];
    int64_t own[3][RANK_MOST], own_pads[2 * RANK_MOST], elements = 1;
    int order[RANK_MOST] = {0}, rank = x->as.rank, places = rank - 2;
    if (!find_places(op, w->window, rank, order)) return false;
    for (int i = 0; i < places; i++) {
        int from = order[i + 2];
        own[0][i] = w->window[from];
        own[1][i] = w->stride[from];
        own[2][i] = w->dilation[from];
        own_pads[2 * i] = w->pads[2 * from];
        own_pads[2 * i + 1] = w->pads[2 * from + 1];
        elements *= w->window[from];
    }
    const char *input = hlo_lay(op->draft, x, order, rank, HLO_WHOLE, NULL, NULL);
    const char *name = hlo_ordered(op, order);
    Onnx__NodeProto *proto = draft_put(op->draft, pool, name, 1, &input);
    draft_put_ints(op->draft, proto, "kernel_shape", own[0], places);
    draft_put_ints(op->draft, proto, "strides", own[1], places);
    draft_put_ints(op->draft, proto, "dilations", own[2], places);
    put_pads(op, proto, own_pads, places);
    if (strcmp(pool, "MaxPool") == 0) return true;
    draft_put_int(op->draft, proto, "count_include_pad", 1);
    // A sum is its mean times their count; divided by that it is the mean again.
    struct hlo_tensor *mean = op->results[0]->tensor;
    const char *const inputs[] = {name,
                                  draft_number(op->draft, op->types[0].element, (double)elements)};
    draft_put(op->draft, "Mul", hlo_ordered(op, order), 2, inputs);
    op->results[0]->tensor->mean = mean;
    op->results[0]->tensor->reduced_count = elements;
    return true;
}

bool hlo_reduce_window(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    struct window_list w;
    const char *pool = x ? find_pool(op) : NULL;
    bool is_reverse = false;
    if (!pool) return false;
    int rank = x->as.rank;
    if (op->types[0].rank != rank || op->result_count != 1)
        return hlo_fail(op, "its result is of another type");
    if (!hlo_ints(op, "window_dimensions", rank, 1, w.window) ||
        !hlo_ints(op, "window_strides", rank, 1, w.stride) ||
        !hlo_ints(op, "window_dilations", rank, 1, w.dilation) ||
        !hlo_ints(op, "base_dilations", rank, 1, w.spread) ||
        !hlo_ints(op, "padding", 2 * rank, 0, w.pads))
        return false;
    for (int i = 0; i < rank; i++)
        if (w.spread[i] != 1) return hlo_fail(op, "base_dilations are not read");
    int axis = strcmp(pool, "MaxPool") == 0 ? -1 : running_axis(x, &w, &is_reverse);
    return axis >= 0 ? put_running(op, axis, is_reverse) : put_pool(op, pool, &w);
}
