#include "models/pt2/rules.h"

#include <string.h>

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

// An argument with one number for each dimension of the window, or one for all of them.
static bool extents(const struct pt2_node *node, const char *name, int rank, int64_t fallback,
                    int64_t *sizes)
{
    int count = 0;
    const int64_t *given = pt2_ints(node, name, &count);
    if (!is_clean(node)) return false;
    if (count > 1 && count != rank)
        return pt2_fail(node, "%s has %d numbers, %d are wanted", name, count, rank);
    for (int i = 0; i < rank; i++)
        sizes[i] = count ? given[count > 1 ? i : 0] : fallback;
    return true;
}

// Symmetric padding as ONNX has it: all at the start, then all at the end.
static void put_pads(const struct pt2_node *node, Onnx__NodeProto *proto, const int64_t *padding,
                     int rank)
{
    int64_t pads[2 * RANK_MOST] = {0};
    for (int i = 0; i < rank; i++)
        pads[i] = pads[rank + i] = padding[i];
    draft_put_ints(node->draft, proto, "pads", pads, 2 * rank);
}

bool pt2_conv(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    const struct draft_value *bias = pt2_tensor(node, "bias");
    if (!x || !weight || x->rank != weight->rank || x->rank < 3)
        return is_clean(node) ? pt2_fail(node, "a batch of images and a weight are wanted") : false;
    int rank = x->rank - 2;
    int64_t stride[RANK_MOST], padding[RANK_MOST] = {0}, dilation[RANK_MOST], extra[RANK_MOST];
    const char *same = pt2_text(node, "padding");
    bool is_turned = type || pt2_bool(node, "transposed", false);
    if (!extents(node, "stride", rank, 1, stride) ||
        !extents(node, "dilation", rank, 1, dilation) ||
        !extents(node, "output_padding", rank, 0, extra) ||
        (!same && !extents(node, "padding", rank, 0, padding)))
        return false;
    const char *const inputs[] = {x->name, weight->name, bias ? bias->name : NULL};
    Onnx__NodeProto *proto = draft_put(node->draft, is_turned ? "ConvTranspose" : "Conv",
                                       pt2_output(node, 0), bias ? 3 : 2, inputs);
    draft_put_ints(node->draft, proto, "strides", stride, rank);
    draft_put_ints(node->draft, proto, "dilations", dilation, rank);
    draft_put_int(node->draft, proto, "group", pt2_int(node, "groups", 1));
    if (is_turned) draft_put_ints(node->draft, proto, "output_padding", extra, rank);
    if (!same) put_pads(node, proto, padding, rank);
    if (same) draft_put_text(node->draft, proto, "auto_pad", *same == 's' ? "SAME_UPPER" : "VALID");
    return is_clean(node);
}

bool pt2_pool(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node);
    if (!x || x->rank < 3)
        return is_clean(node) ? pt2_fail(node, "a batch of images is wanted") : false;
    int rank = x->rank - 2, count = 0;
    int64_t kernel[RANK_MOST], stride[RANK_MOST], padding[RANK_MOST] = {0}, dilation[RANK_MOST];
    if (!extents(node, "kernel_size", rank, 1, kernel) ||
        !extents(node, "padding", rank, 0, padding) ||
        !extents(node, "dilation", rank, 1, dilation))
        return false;
    // Without one the stride is the kernel.
    (void)pt2_ints(node, "stride", &count);
    memcpy(stride, kernel, sizeof stride);
    if (count && !extents(node, "stride", rank, 1, stride)) return false;
    const char *input = x->name;
    Onnx__NodeProto *proto = draft_put(node->draft, type, pt2_output(node, 0), 1, &input);
    draft_put_ints(node->draft, proto, "kernel_shape", kernel, rank);
    draft_put_ints(node->draft, proto, "strides", stride, rank);
    draft_put_ints(node->draft, proto, "dilations", dilation, rank);
    put_pads(node, proto, padding, rank);
    draft_put_int(node->draft, proto, "ceil_mode", pt2_bool(node, "ceil_mode", false));
    bool is_mean = strcmp(type, "AveragePool") == 0;
    if (is_mean)
        draft_put_int(node->draft, proto, "count_include_pad",
                      pt2_bool(node, "count_include_pad", true));
    if (pt2_has(node, "divisor_override")) draft_put_int(node->draft, proto, "divisor_override", 1);
    if (node->output_count > 1) draft_put_output(node->draft, proto, pt2_output(node, 1));
    return is_clean(node);
}

// To a size that is asked for: one window where the whole image becomes one number, else windows
// side by side, which an image of a multiple of that size has.
bool pt2_adaptive_pool(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = node->outputs[0];
    if (!x || !out || x->rank < 3 || out->rank != x->rank)
        return is_clean(node) ? pt2_fail(node, "a batch of images is wanted") : false;
    int rank = x->rank - 2;
    int64_t kernel[RANK_MOST];
    bool is_global = true;
    for (int i = 0; i < rank; i++) {
        int64_t from = x->dims[i + 2], to = out->dims[i + 2];
        is_global = is_global && to == 1;
        if (to < 1 || from % to != 0) return pt2_fail(node, "windows of unequal size are not read");
        kernel[i] = from / to;
    }
    const char *kind =
        arena_print(node->program->arena, "%s%sPool", is_global ? "Global" : "", type);
    const char *input = x->name;
    Onnx__NodeProto *proto = draft_put(node->draft, kind, out->name, 1, &input);
    if (is_global) return true;
    draft_put_ints(node->draft, proto, "kernel_shape", kernel, rank);
    draft_put_ints(node->draft, proto, "strides", kernel, rank);
    return true;
}

// Whether places are counted by how much larger the result is: a factor that is given counts them
// even where the result has no such size, unless corners stay corners.
static bool has_own_scale(const struct pt2_node *node, const struct draft_value *x,
                          const struct draft_value *out)
{
    int count = 0;
    const double *factors = pt2_numbers(node, "scale_factors", &count);
    if (pt2_has(node, "scales") || pt2_has(node, "scales_h") || pt2_has(node, "scales_w"))
        return true;
    for (int i = 0; i < count && i + 2 < x->rank; i++)
        if (factors[i] * (double)x->dims[i + 2] != (double)out->dims[i + 2]) return true;
    return false;
}

bool pt2_resize(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = node->outputs[0];
    if (!x || !out) return is_clean(node) ? pt2_fail(node, "nothing is said of its result") : false;
    const char *sizes = draft_list(node->draft, out->dims, out->rank);
    const char *const inputs[] = {x->name, NULL, NULL, sizes};
    Onnx__NodeProto *proto = draft_put(node->draft, "Resize", out->name, 4, inputs);
    bool is_nearest = strstr(node->target, "nearest") != NULL;
    draft_put_text(node->draft, proto, "mode",
                   is_nearest                        ? "nearest"
                   : strstr(node->target, "bicubic") ? "cubic"
                                                     : "linear");
    bool has_corners = !is_nearest && pt2_bool(node, "align_corners", false);
    const char *way = is_nearest ? "asymmetric" : has_corners ? "align_corners" : "half_pixel";
    // A way that no kernel has.
    if (!has_corners && has_own_scale(node, x, out)) way = "tf_crop_and_resize";
    draft_put_text(node->draft, proto, "coordinate_transformation_mode", way);
    draft_put_text(node->draft, proto, "nearest_mode", "floor");
    return is_clean(node);
}
