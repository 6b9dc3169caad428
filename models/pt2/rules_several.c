#include "models/pt2/rules.h"

#include <string.h>

// Functions that are several operators of ONNX.

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

static const char *put(const struct pt2_node *node, const char *type, const char *a, const char *b,
                       const char *output)
{
    const char *name = output ? output : draft_between(node->draft);
    const char *const inputs[] = {a, b};
    draft_put(node->draft, type, name, b ? 2 : 1, inputs);
    return name;
}

bool pt2_einsum(struct pt2_node *node, const char *type)
{
    (void)type;
    int count = 0;
    const struct draft_value **parts = pt2_tensors(node, "tensors", &count);
    const char *equation = pt2_text(node, "equation");
    if (!parts || !equation || count < 1 || count > 2)
        return is_clean(node) ? pt2_fail(node, "an equation over one or two tensors is wanted")
                              : false;
    const char *const inputs[] = {parts[0]->name, count > 1 ? parts[1]->name : NULL};
    draft_put_text(node->draft,
                   draft_put(node->draft, "Einsum", pt2_output(node, 0), count, inputs), "equation",
                   equation);
    return is_clean(node);
}

// One half times the sigmoid of the other.
bool pt2_glu(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out || out->rank != x->rank)
        return is_clean(node) ? pt2_fail(node, "its result has other dimensions") : false;
    int64_t axis = pt2_axis(node, "dim", -1, x->rank);
    if (!is_clean(node)) return false;
    const int64_t halves[] = {out->dims[axis], out->dims[axis]};
    const char *first = draft_between(node->draft), *second = draft_between(node->draft);
    const char *const inputs[] = {x->name, draft_list(node->draft, halves, 2)};
    Onnx__NodeProto *proto = draft_put(node->draft, "Split", first, 2, inputs);
    draft_put_output(node->draft, proto, second);
    draft_put_int(node->draft, proto, "axis", axis);
    put(node, "Mul", first, put(node, "Sigmoid", second, NULL, NULL), out->name);
    return is_clean(node);
}

bool pt2_square(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (x) put(node, "Mul", x->name, x->name, pt2_output(node, 0));
    return is_clean(node);
}

// A slope for each channel.
bool pt2_prelu(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    if (!x || !weight || weight->rank > 1)
        return is_clean(node) ? pt2_fail(node, "a slope for each channel is wanted") : false;
    int64_t dims[RANK_MOST] = {0};
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == 1 && weight->rank == 1 ? weight->dims[0] : 1;
    const char *spread =
        put(node, "Reshape", weight->name,
            draft_list(node->draft, dims + 1, x->rank > 1 ? x->rank - 1 : 0), NULL);
    put(node, "PRelu", x->name, spread, pt2_output(node, 0));
    return is_clean(node);
}

// other - self
bool pt2_rsub(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    if (pt2_number(node, "alpha", 1) != 1) return pt2_fail(node, "alpha is not 1");
    const char *other = draft_number(node->draft, x->element, pt2_number(node, "other", 0));
    put(node, "Sub", other, x->name, pt2_output(node, 0));
    return is_clean(node);
}

// x + value a b.
bool pt2_addcmul(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    const struct draft_value *a = pt2_tensor(node, "tensor1"), *b = pt2_tensor(node, "tensor2");
    if (!x || !a || !b) return is_clean(node) ? pt2_fail(node, "it has three tensors") : false;
    if (pt2_number(node, "value", 1) != 1) return pt2_fail(node, "value is not 1");
    const char *product = draft_between(node->draft);
    put(node, "Mul", a->name, b->name, product);
    put(node, "Add", x->name, product, pt2_output(node, 0));
    return is_clean(node);
}

// By how much the sum of squares is divided less than there are numbers: by one where nothing is
// said (torch.var).
static double correction_of(const struct pt2_node *node)
{
    if (pt2_has(node, "unbiased")) return pt2_bool(node, "unbiased", true) ? 1 : 0;
    return pt2_number(node, "correction", 1);
}

// How many numbers are one mean; 0: an axis is none.
static double count_of(const struct draft_value *x, const int64_t *axes, int count)
{
    double all = 1;
    for (int i = 0; i < (count ? count : x->rank); i++) {
        int64_t axis = !count ? i : axes[i] < 0 ? axes[i] + x->rank : axes[i];
        all *= axis >= 0 && axis < x->rank ? (double)x->dims[axis] : 0;
    }
    return all;
}

// The mean of the squares of what is over the mean, and its root of std.
bool pt2_variance(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    int count = 0;
    const int64_t *axes = pt2_ints(node, "dim", &count);
    if (!out || !is_clean(node)) return false;
    const char *mean = draft_between(node->draft);
    const char *list = count ? draft_list(node->draft, axes, count) : NULL;
    const char *const inputs[] = {x->name, list};
    draft_put(node->draft, "ReduceMean", mean, list ? 2 : 1, inputs);
    const char *over = put(node, "Sub", x->name, mean, NULL);
    const char *square = put(node, "Mul", over, over, NULL);
    double correction = correction_of(node), all = count_of(x, axes, count);
    bool is_plain = correction == 0 || all <= correction;
    node->is_rough = all <= correction;
    const char *variance = type ? draft_between(node->draft) : out->name;
    const char *made = is_plain ? variance : draft_between(node->draft);
    const char *const summed[] = {square, list};
    Onnx__NodeProto *proto = draft_put(node->draft, "ReduceMean", made, list ? 2 : 1, summed);
    draft_put_int(node->draft, proto, "keepdims", out->rank == x->rank);
    if (!is_plain)
        put(node, "Mul", made, draft_number(node->draft, x->element, all / (all - correction)),
            variance);
    if (type) put(node, type, variance, NULL, out->name);
    return is_clean(node);
}

// Variance and mean.
bool pt2_variance_mean(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node);
    int count = 0;
    const int64_t *axes = pt2_ints(node, "dim", &count);
    if (!x || !is_clean(node) || !pt2_variance(node, type)) return false;
    const char *list = count ? draft_list(node->draft, axes, count) : NULL;
    const char *const inputs[] = {x->name, list};
    const struct draft_value *mean = node->output_count > 1 ? node->outputs[1] : NULL;
    if (!mean) return true;
    Onnx__NodeProto *proto = draft_put(node->draft, "ReduceMean", mean->name, list ? 2 : 1, inputs);
    draft_put_int(node->draft, proto, "keepdims", mean->rank == x->rank);
    return is_clean(node);
}

bool pt2_arg(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out || !is_clean(node)) return false;
    if (!pt2_has(node, "dim")) return pt2_fail(node, "it has no dimension");
    Onnx__NodeProto *proto = draft_put(node->draft, type, out->name, 1, &x->name);
    draft_put_int(node->draft, proto, "axis", pt2_axis(node, "dim", 0, x->rank));
    draft_put_int(node->draft, proto, "keepdims", out->rank == x->rank);
    return is_clean(node);
}

// The largest of each row; all of them where they are sorted.
bool pt2_top(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out || out->rank != x->rank || !is_clean(node))
        return is_clean(node) ? pt2_fail(node, "its result has other dimensions") : false;
    int64_t axis = pt2_axis(node, "dim", -1, x->rank);
    if (!is_clean(node)) return false;
    const char *const inputs[] = {x->name, draft_list(node->draft, &out->dims[axis], 1)};
    Onnx__NodeProto *proto = draft_put(node->draft, "TopK", out->name, 2, inputs);
    draft_put_int(node->draft, proto, "axis", axis);
    if (node->output_count > 1) draft_put_output(node->draft, proto, pt2_output(node, 1));
    return is_clean(node);
}

bool pt2_instance_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    const struct draft_value *bias = pt2_tensor(node, "bias");
    if (!x || !weight || !bias)
        return is_clean(node) ? pt2_fail(node, "a factor and a bias are wanted") : false;
    const char *const inputs[] = {x->name, weight->name, bias->name};
    draft_put_float(node->draft,
                    draft_put(node->draft, "InstanceNormalization", pt2_output(node, 0), 3, inputs),
                    "epsilon", pt2_number(node, "eps", 1e-5));
    return is_clean(node);
}

// (v, g, dim): v over its norm along all but one dimension, times g (Salimans and Kingma 2016). The
// second result is the norm.
bool pt2_weight_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *v = pt2_first(node), *g = pt2_tensor(node, "g");
    if (!v || !g || !node->outputs[0] || v->rank < 1)
        return v ? pt2_fail(node, "a weight and its lengths are wanted") : false;
    int64_t kept = pt2_axis(node, "dim", 0, v->rank), axes[RANK_MOST];
    int count = 0;
    for (int i = 0; i < v->rank; i++)
        if (i != kept) axes[count++] = i;
    struct onnx_draft *draft = node->draft;
    bool is_asked = node->output_count > 1 && node->outputs[1];
    const char *norm = is_asked ? node->outputs[1]->name : draft_between(draft);
    const char *factor = draft_between(draft);
    Onnx__NodeProto *root = draft_put(draft, "ReduceL2", norm, 1, &v->name);
    draft_put_ints(draft, root, "axes", axes, count);
    draft_put_int(draft, root, "keepdims", 1);
    draft_put(draft, "Div", factor, 2, (const char *const[]){g->name, norm});
    draft_put(draft, "Mul", node->outputs[0]->name, 2, (const char *const[]){v->name, factor});
    return !node->program->err->kind;
}

// Labels that are to be ignored are the data's affair.
bool pt2_loss(struct pt2_node *node, const char *type)
{
    enum { MEAN = 1 };
    const struct draft_value *scores = pt2_first(node), *labels = pt2_tensor(node, "target");
    if (!scores || !labels || !is_clean(node)) return false;
    (void)pt2_int(node, "ignore_index", 0);
    bool is_plain = pt2_int(node, "reduction", MEAN) == MEAN && !pt2_has(node, "weight") &&
                    pt2_number(node, "label_smoothing", 0) == 0;
    if (!is_plain)
        return pt2_fail(node, "the mean over labels is wanted, without weights and smoothing");
    put(node, type, scores->name, labels->name, pt2_output(node, 0));
    return is_clean(node);
}
