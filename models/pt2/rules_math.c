#include "models/pt2/rules.h"

#include <assert.h>
#include <string.h>

#define PUT(node, type, output, ...)                                                    \
    draft_put(node->draft, type, output,                                                \
              (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)), \
              (const char *const[]){__VA_ARGS__})

static const double NORM_EPSILON = 1e-5;  // of batch and group norm where nothing is said

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

const struct draft_value *pt2_first(const struct pt2_node *node)
{
    const struct draft_value *value =
        node->input_count ? pt2_tensor(node, node->input_names[0]) : NULL;
    if (!value && is_clean(node)) pt2_fail(node, "its first argument is no tensor");
    return value;
}

const char *pt2_as_element(const struct pt2_node *node, const struct draft_value *value,
                           enum onnx_element element)
{
    if (value->element == element) return value->name;
    const char *name = draft_between(node->draft);
    draft_put_int(node->draft, PUT(node, "Cast", name, value->name), "to", element);
    return name;
}

bool pt2_unary(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    PUT(node, type, pt2_output(node, 0), x->name);
    return true;
}

bool pt2_rsqrt(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    const char *root = draft_between(node->draft);
    PUT(node, "Sqrt", root, x->name);
    PUT(node, "Reciprocal", pt2_output(node, 0), root);
    return true;
}

bool pt2_gelu(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    const char *approximate = pt2_text(node, "approximate");
    draft_put_text(node->draft, PUT(node, "Gelu", pt2_output(node, 0), x->name), "approximate",
                   approximate ? approximate : "none");
    return is_clean(node);
}

// Functions with a number of their own, under ATen's name for it and under ONNX's.
static bool put_bent(struct pt2_node *node, const char *type, const char *name,
                     const char *attribute, double fallback)
{
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    Onnx__NodeProto *proto = PUT(node, type, pt2_output(node, 0), x->name);
    draft_put_float(node->draft, proto, attribute, pt2_number(node, name, fallback));
    return is_clean(node);
}

bool pt2_leaky(struct pt2_node *node, const char *type)
{
    return put_bent(node, type, "negative_slope", "alpha", 0.01);
}

bool pt2_elu(struct pt2_node *node, const char *type)
{
    return put_bent(node, type, "alpha", "alpha", 1);
}

bool pt2_hard_sigmoid(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    draft_put_float(node->draft, PUT(node, "HardSigmoid", pt2_output(node, 0), x->name), "alpha",
                    1.0 / 6);
    return is_clean(node);
}

bool pt2_softplus(struct pt2_node *node, const char *type)
{
    return put_bent(node, type, "beta", "beta", 1);
}

// relu6 has its bounds in its name, hardtanh has 1 on either side where it says nothing.
bool pt2_clip(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    Onnx__NodeProto *proto = PUT(node, "Clip", pt2_output(node, 0), x->name);
    bool is_six = strstr(node->target, "relu6") != NULL;
    bool is_tanh = strstr(node->target, "hardtanh") != NULL;
    const char *low = is_tanh ? "min_val" : "min", *high = is_tanh ? "max_val" : "max";
    if (is_six || is_tanh || pt2_has(node, low))
        draft_put_float(node->draft, proto, "min", is_six ? 0 : pt2_number(node, low, -1));
    if (is_six || is_tanh || pt2_has(node, high))
        draft_put_float(node->draft, proto, "max", is_six ? 6 : pt2_number(node, high, 1));
    return is_clean(node);
}

// The element type that two operands are computed in: floats before whole numbers before truths,
// and a tensor's before a number's.
static enum onnx_element common_element(const struct draft_value *a, const struct draft_value *b)
{
    assert(element_bytes(a->element) > 0);
    if (!b || a->element == b->element) return a->element;
    bool a_float = element_is_float(a->element), b_float = element_is_float(b->element);
    if (a_float != b_float) return a_float ? a->element : b->element;
    bool is_wider = element_bytes(a->element) != element_bytes(b->element)
                        ? element_bytes(a->element) > element_bytes(b->element)
                        : b->element == ELEMENT_BOOL;
    return is_wider ? a->element : b->element;
}

static bool is_truth(const char *type)
{
    static const char *const TRUTHS[] = {"Equal",   "Less",           "LessOrEqual",
                                         "Greater", "GreaterOrEqual", "Xor"};
    for (size_t i = 0; i < sizeof TRUTHS / sizeof *TRUTHS; i++) {
        if (strcmp(type, TRUTHS[i]) == 0) return true;
    }
    return false;
}

// What a number is multiplied with.
static const char *put_scaled(const struct pt2_node *node, const char *x, enum onnx_element element,
                              double factor)
{
    assert(factor == factor && "a number");
    if (factor == 1) return x;
    const char *scaled = draft_between(node->draft);
    PUT(node, "Mul", scaled, x, draft_number(node->draft, element, factor));
    return scaled;
}

// (self, other): each a tensor or a number.
static bool put_binary(struct pt2_node *node, const char *type, const char *output)
{
    const struct draft_value *x = pt2_first(node), *y = NULL;
    const char *name = pt2_has(node, "exponent") ? "exponent" : "other";
    if (!x) return false;
    if (pt2_is_tensor(node, name) && !(y = pt2_tensor(node, name))) return false;
    enum onnx_element element = common_element(x, y);
    // A whole tensor and a fraction, or a quotient of whole numbers: the file states the result.
    const struct draft_value *out = node->outputs[0];
    if (out && !is_truth(type) && element_is_float(out->element)) element = out->element;
    const char *other = y ? pt2_as_element(node, y, element)
                          : draft_number(node->draft, element, pt2_number(node, name, 0));
    double alpha = pt2_number(node, "alpha", 1);
    other = put_scaled(node, other, element, alpha);
    PUT(node, type, output, pt2_as_element(node, x, element), other);
    return is_clean(node);
}

// Samples of which nothing is left in a product (Huang et al. 2016, stochastic depth).
static bool put_dropped(struct pt2_node *node, const struct draft_value *x,
                        const struct draft_value *noise)
{
    // What is divided by the share that is left may be either.
    bool is_divided = x->divided && noise->drawn > 0 && x->divisor == noise->drawn;
    if (noise->is_scaled == is_divided || x->rank != noise->rank || x->rank < 1) return false;
    if (is_divided) x = x->divided;
    for (int i = 0; i < x->rank; i++)
        if (noise->dims[i] != (i == 0 ? x->dims[0] : 1)) return false;
    draft_put_float(node->draft, PUT(node, "DropPath", pt2_output(node, 0), x->name), "ratio",
                    1 - noise->drawn);
    return true;
}

bool pt2_binary(struct pt2_node *node, const char *type)
{
    bool is_pair = strcmp(type, "Mul") == 0 && node->input_count == 2;
    struct json second = is_pair ? json_item(&node->inputs[1], 0) : (struct json){0};
    if (is_pair && strcmp(json_key(&second), "as_tensor") == 0) {
        const struct draft_value *x = pt2_first(node), *y = pt2_tensor(node, "other");
        if (x && y && (put_dropped(node, x, y) || put_dropped(node, y, x))) return true;
    }
    return put_binary(node, type, pt2_output(node, 0));
}

// ONNX has it for truths alone.
bool pt2_unequal(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (x && x->element == ELEMENT_BOOL) return pt2_binary(node, "Xor");
    const char *equal = draft_between(node->draft);
    if (!x || !put_binary(node, "Equal", equal)) return false;
    PUT(node, "Not", pt2_output(node, 0), equal);
    return true;
}

// A quotient that is rounded down; those of whole numbers are rounded by themselves. ONNX has none
// that is rounded to zero.
bool pt2_divide(struct pt2_node *node, const char *type)
{
    const char *mode = pt2_text(node, "rounding_mode");
    bool is_down = strstr(node->target, "floor_divide") || (mode && strcmp(mode, "floor") == 0);
    const struct draft_value *out = node->outputs[0];
    node->is_rough = mode && !is_down;
    if (!is_down || !out || !element_is_float(out->element)) return pt2_binary(node, type);
    const char *quotient = draft_between(node->draft);
    if (!put_binary(node, type, quotient)) return false;
    PUT(node, "Floor", pt2_output(node, 0), quotient);
    return true;
}

bool pt2_product(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *a = pt2_first(node);
    const struct draft_value *b = pt2_tensor(node, pt2_has(node, "mat2") ? "mat2" : "other");
    if (!a || !b) return is_clean(node) ? pt2_fail(node, "its second factor is no tensor") : false;
    PUT(node, "MatMul", pt2_output(node, 0), a->name, b->name);
    return true;
}

bool pt2_addmm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *bias = pt2_first(node), *a = pt2_tensor(node, "mat1");
    const struct draft_value *b = pt2_tensor(node, "mat2");
    if (!bias || !a || !b) return is_clean(node) ? pt2_fail(node, "a factor is no tensor") : false;
    Onnx__NodeProto *proto = PUT(node, "Gemm", pt2_output(node, 0), a->name, b->name, bias->name);
    double alpha = pt2_number(node, "alpha", 1), beta = pt2_number(node, "beta", 1);
    if (alpha != 1) draft_put_float(node->draft, proto, "alpha", alpha);
    if (beta != 1) draft_put_float(node->draft, proto, "beta", beta);
    return is_clean(node);
}

bool pt2_baddbmm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *sum = pt2_first(node), *a = pt2_tensor(node, "batch1");
    const struct draft_value *b = pt2_tensor(node, "batch2");
    if (!sum || !a || !b) return is_clean(node) ? pt2_fail(node, "a factor is no tensor") : false;
    double alpha = pt2_number(node, "alpha", 1), beta = pt2_number(node, "beta", 1);
    // Of nothing of it not even infinities are left (torch.baddbmm).
    bool is_alone = beta == 0;
    const char *product = is_alone && alpha == 1 ? pt2_output(node, 0) : draft_between(node->draft);
    PUT(node, "MatMul", product, a->name, b->name);
    if (is_alone && alpha != 1)
        PUT(node, "Mul", pt2_output(node, 0), product,
            draft_number(node->draft, a->element, alpha));
    if (is_alone) return is_clean(node);
    PUT(node, "Add", pt2_output(node, 0), put_scaled(node, product, a->element, alpha),
        put_scaled(node, sum->name, sum->element, beta));
    return is_clean(node);
}

// x times the transposed weight, and the bias.
bool pt2_linear(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    const struct draft_value *bias = pt2_tensor(node, "bias");
    if (!x || !weight || !is_clean(node))
        return is_clean(node) ? pt2_fail(node, "there is no weight") : false;
    if (x->rank == 2 && weight->rank == 2) {
        const char *const inputs[] = {x->name, weight->name, bias ? bias->name : NULL};
        draft_put_int(node->draft,
                      draft_put(node->draft, "Gemm", pt2_output(node, 0), bias ? 3 : 2, inputs),
                      "transB", 1);
        return is_clean(node);
    }
    const char *turned = draft_between(node->draft),
               *product = bias ? draft_between(node->draft) : NULL;
    PUT(node, "Transpose", turned, weight->name);
    PUT(node, "MatMul", bias ? product : pt2_output(node, 0), x->name, turned);
    if (bias) PUT(node, "Add", pt2_output(node, 0), product, bias->name);
    return true;
}

bool pt2_softmax(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    const char *in =
        node->outputs[0] ? pt2_as_element(node, x, node->outputs[0]->element) : x->name;
    draft_put_int(node->draft, PUT(node, type, pt2_output(node, 0), in), "axis",
                  pt2_axis(node, "dim", -1, x->rank));
    return is_clean(node);
}

bool pt2_reduce(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node);
    int count = 0;
    if (!x) return false;
    const int64_t *axes = pt2_ints(node, "dim", &count);
    Onnx__NodeProto *proto = PUT(node, type, pt2_output(node, 0), x->name);
    if (count) draft_put_ints(node->draft, proto, "axes", axes, count);
    draft_put_int(node->draft, proto, "keepdims", pt2_bool(node, "keepdim", false));
    return is_clean(node);
}

// One of the two values may be a number.
bool pt2_where(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *condition = pt2_first(node), *out = node->outputs[0];
    static const char *const SIDES[] = {"self", "other"};
    const char *sides[2];
    if (!condition || !out) return is_clean(node) ? pt2_fail(node, "it has no result") : false;
    for (int i = 0; i < 2; i++) {
        bool is_tensor = pt2_is_tensor(node, SIDES[i]);
        const struct draft_value *tensor = is_tensor ? pt2_tensor(node, SIDES[i]) : NULL;
        if (is_tensor && !tensor) return false;
        sides[i] = tensor ? pt2_as_element(node, tensor, out->element)
                          : draft_number(node->draft, out->element, pt2_number(node, SIDES[i], 0));
    }
    PUT(node, "Where", pt2_output(node, 0), condition->name, sides[0], sides[1]);
    return is_clean(node);
}

bool pt2_masked_fill(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *mask = pt2_tensor(node, "mask");
    if (!x || !mask) return is_clean(node) ? pt2_fail(node, "there is no mask") : false;
    bool is_number = !pt2_is_tensor(node, "value");
    const char *filling =
        draft_number(node->draft, x->element, is_number ? pt2_number(node, "value", 0) : 0);
    node->is_rough = !is_number;
    PUT(node, "Where", pt2_output(node, 0), mask->name, filling, x->name);
    return true;
}

bool pt2_dropout(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    bool drops = pt2_bool(node, "train", false) && pt2_number(node, "p", 0) > 0;
    Onnx__NodeProto *proto =
        PUT(node, drops ? "Dropout" : "Identity", pt2_output(node, 0), x->name);
    if (drops) draft_put_float(node->draft, proto, "ratio", pt2_number(node, "p", 0));
    if (drops && node->output_count > 1) draft_put_output(node->draft, proto, pt2_output(node, 1));
    return is_clean(node);
}

// Scale and shift, ones where there is none: ONNX always has a scale.
static const char *scale_of(const struct pt2_node *node, const struct draft_value *weight,
                            const struct draft_value *x, int64_t axis)
{
    assert(axis >= 0 && axis <= x->rank);
    if (weight) return weight->name;
    struct draft_value ones = {.name = draft_between(node->draft),
                               .element = x->element,
                               .rank = x->rank - (int)axis,
                               .dims = x->dims + axis,
                               .is_fixed = true};
    draft_unknown(node->draft, &ones);
    return ones.name;
}

bool pt2_layer_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    const struct draft_value *weight = pt2_tensor(node, "weight"), *bias = pt2_tensor(node, "bias");
    int count = 0;
    if (!x) return false;
    (void)pt2_ints(node, "normalized_shape", &count);
    if (!is_clean(node) || count < 1 || count > x->rank)
        return is_clean(node) ? pt2_fail(node, "normalized_shape is not that of its input") : false;
    const char *scale = scale_of(node, weight, x, x->rank - count);
    const char *const inputs[] = {x->name, scale, bias ? bias->name : NULL};
    Onnx__NodeProto *proto =
        draft_put(node->draft, "LayerNormalization", pt2_output(node, 0), bias ? 3 : 2, inputs);
    draft_put_int(node->draft, proto, "axis", x->rank - count);
    draft_put_float(node->draft, proto, "epsilon", pt2_number(node, "eps", NORM_EPSILON));
    for (int i = 1; i < node->output_count && i < 3; i++)
        draft_put_output(node->draft, proto, pt2_output(node, i));
    return true;
}

// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4), step by step.
bool pt2_rms_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    int count = 0;
    if (!x) return false;
    (void)pt2_ints(node, "normalized_shape", &count);
    if (!is_clean(node) || count != 1)
        return is_clean(node) ? pt2_fail(node, "one normalised dimension is wanted") : false;
    const char *step[6];
    for (int i = 0; i < 6; i++)
        step[i] = draft_between(node->draft);
    const int64_t last = -1;
    const char *two = draft_number(node->draft, x->element, 2);
    const char *epsilon = draft_number(node->draft, x->element, pt2_number(node, "eps", 0));
    PUT(node, "Pow", step[0], x->name, two);
    Onnx__NodeProto *mean = PUT(node, "ReduceMean", step[1], step[0]);
    draft_put_ints(node->draft, mean, "axes", &last, 1);
    draft_put_int(node->draft, mean, "keepdims", 1);
    PUT(node, "Add", step[2], step[1], epsilon);
    PUT(node, "Sqrt", step[3], step[2]);
    PUT(node, "Reciprocal", step[4], step[3]);
    PUT(node, "Mul", weight ? step[5] : pt2_output(node, 0), x->name, step[4]);
    if (weight) PUT(node, "Mul", pt2_output(node, 0), step[5], weight->name);
    return is_clean(node);
}

bool pt2_batch_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    static const char *const NAMES[] = {"weight", "bias", "running_mean", "running_var"};
    const struct draft_value *x = pt2_first(node);
    if (!x || x->rank < 2) return x ? pt2_fail(node, "its input has no channels") : false;
    const char *inputs[5] = {x->name};
    for (int i = 0; i < 4; i++) {
        const struct draft_value *value = pt2_tensor(node, NAMES[i]);
        struct draft_value channels = {.element = x->element, .rank = 1, .dims = x->dims + 1};
        if (!value) {
            channels.name = draft_between(node->draft);
            draft_unknown(node->draft, &channels);
        }
        inputs[i + 1] = value ? value->name : channels.name;
    }
    Onnx__NodeProto *proto =
        draft_put(node->draft, "BatchNormalization", pt2_output(node, 0), 5, inputs);
    draft_put_float(node->draft, proto, "epsilon", pt2_number(node, "eps", NORM_EPSILON));
    return is_clean(node);
}

bool pt2_group_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    const struct draft_value *weight = pt2_tensor(node, "weight"), *bias = pt2_tensor(node, "bias");
    if (!x || !weight || !bias)
        return is_clean(node) ? pt2_fail(node, "there is no weight or no bias") : false;
    int64_t groups = pt2_int(node, pt2_has(node, "num_groups") ? "num_groups" : "group", 1);
    Onnx__NodeProto *proto =
        PUT(node, "GroupNormalization", pt2_output(node, 0), x->name, weight->name, bias->name);
    draft_put_int(node->draft, proto, "num_groups", groups);
    draft_put_float(node->draft, proto, "epsilon", pt2_number(node, "eps", NORM_EPSILON));
    return is_clean(node);
}

bool pt2_attention(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *q = pt2_first(node), *k = pt2_tensor(node, "key");
    const struct draft_value *v = pt2_tensor(node, "value");
    const struct draft_value *mask =
        pt2_tensor(node, pt2_has(node, "attn_bias") ? "attn_bias" : "attn_mask");
    if (!q || !k || !v || !is_clean(node))
        return is_clean(node) ? pt2_fail(node, "there are no query, key and value") : false;
    const char *const inputs[] = {q->name, k->name, v->name, mask ? mask->name : NULL};
    Onnx__NodeProto *proto =
        draft_put(node->draft, "Attention", pt2_output(node, 0), mask ? 4 : 3, inputs);
    draft_put_int(node->draft, proto, "is_causal", pt2_bool(node, "is_causal", false));
    if (pt2_has(node, "scale"))
        draft_put_float(node->draft, proto, "scale", pt2_number(node, "scale", 1));
    if (pt2_number(node, "dropout_p", 0) > 0)
        draft_put_float(node->draft, proto, "dropout", pt2_number(node, "dropout_p", 0));
    return is_clean(node);
}
