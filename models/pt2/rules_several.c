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
    const char *name = output ? output : pt2_between(node);
    const char *const inputs[] = {a, b};
    pt2_put(node, type, name, b ? 2 : 1, inputs);
    return name;
}

bool pt2_einsum(struct pt2_node *node, const char *type)
{
    (void)type;
    int count = 0;
    const struct pt2_value **parts = pt2_tensors(node, "tensors", &count);
    const char *equation = pt2_text(node, "equation");
    if (!parts || !equation || count > 2)
        return is_clean(node) ? pt2_fail(node, "an equation over one or two tensors is wanted")
                              : false;
    const char *const inputs[] = {parts[0]->name, count > 1 ? parts[1]->name : NULL};
    pt2_put_text(node, pt2_put(node, "Einsum", pt2_output(node, 0), count, inputs), "equation",
                 equation);
    return is_clean(node);
}

// One half times the sigmoid of the other.
bool pt2_glu(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out) return is_clean(node) ? pt2_fail(node, "nothing is said of its result") : false;
    int64_t axis = pt2_axis(node, "dim", -1, x->rank);
    const int64_t halves[] = {out->dims[axis], out->dims[axis]};
    const char *first = pt2_between(node), *second = pt2_between(node);
    const char *const inputs[] = {x->name, pt2_put_list(node, halves, 2)};
    Onnx__NodeProto *proto = pt2_put(node, "Split", first, 2, inputs);
    pt2_put_output(node, proto, second);
    pt2_put_int(node, proto, "axis", axis);
    put(node, "Mul", first, put(node, "Sigmoid", second, NULL, NULL), out->name);
    return is_clean(node);
}

bool pt2_square(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node);
    if (x) put(node, "Mul", x->name, x->name, pt2_output(node, 0));
    return is_clean(node);
}

// A slope for each channel.
bool pt2_prelu(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    if (!x || !weight || weight->rank > 1)
        return is_clean(node) ? pt2_fail(node, "a slope for each channel is wanted") : false;
    int64_t dims[RANK_MOST] = {0};
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == 1 && weight->rank == 1 ? weight->dims[0] : 1;
    const char *spread = put(node, "Reshape", weight->name,
                             pt2_put_list(node, dims + 1, x->rank > 1 ? x->rank - 1 : 0), NULL);
    put(node, "PRelu", x->name, spread, pt2_output(node, 0));
    return is_clean(node);
}

// other - self
bool pt2_rsub(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node);
    if (!x) return false;
    if (pt2_number(node, "alpha", 1) != 1) return pt2_fail(node, "alpha is not 1");
    const char *other = pt2_put_number(node, x->element, pt2_number(node, "other", 0));
    put(node, "Sub", other, x->name, pt2_output(node, 0));
    return is_clean(node);
}

// The mean of the squares of what is over the mean, and its root of std.
bool pt2_variance(struct pt2_node *node, const char *type)
{
    const struct pt2_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    int count = 0;
    const int64_t *axes = pt2_ints(node, "dim", &count);
    if (!out || !is_clean(node)) return false;
    const char *mean = pt2_between(node);
    const char *list = count ? pt2_put_list(node, axes, count) : NULL;
    const char *const inputs[] = {x->name, list};
    pt2_put(node, "ReduceMean", mean, list ? 2 : 1, inputs);
    const char *over = put(node, "Sub", x->name, mean, NULL);
    const char *square = put(node, "Mul", over, over, NULL);
    const char *variance = type ? pt2_between(node) : out->name;
    const char *const summed[] = {square, list};
    Onnx__NodeProto *proto = pt2_put(node, "ReduceMean", variance, list ? 2 : 1, summed);
    pt2_put_int(node, proto, "keepdims", out->rank == x->rank);
    if (type) put(node, type, variance, NULL, out->name);
    return is_clean(node);
}

// Variance and mean.
bool pt2_variance_mean(struct pt2_node *node, const char *type)
{
    const struct pt2_value *x = pt2_first(node);
    int count = 0;
    const int64_t *axes = pt2_ints(node, "dim", &count);
    if (!x || !is_clean(node) || !pt2_variance(node, type)) return false;
    const char *list = count ? pt2_put_list(node, axes, count) : NULL;
    const char *const inputs[] = {x->name, list};
    const struct pt2_value *mean = node->output_count > 1 ? node->outputs[1] : NULL;
    if (!mean) return true;
    Onnx__NodeProto *proto = pt2_put(node, "ReduceMean", mean->name, list ? 2 : 1, inputs);
    pt2_put_int(node, proto, "keepdims", mean->rank == x->rank);
    return is_clean(node);
}

bool pt2_arg(struct pt2_node *node, const char *type)
{
    const struct pt2_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out || !is_clean(node)) return false;
    if (!pt2_has(node, "dim")) return pt2_fail(node, "it has no dimension");
    Onnx__NodeProto *proto = pt2_put(node, type, out->name, 1, &x->name);
    pt2_put_int(node, proto, "axis", pt2_axis(node, "dim", 0, x->rank));
    pt2_put_int(node, proto, "keepdims", out->rank == x->rank);
    return is_clean(node);
}

// The largest of each row; all of them where they are sorted.
bool pt2_top(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node), *out = x ? node->outputs[0] : NULL;
    if (!out || out->rank < 1 || !is_clean(node))
        return is_clean(node) ? pt2_fail(node, "nothing is said of its result") : false;
    int64_t axis = pt2_axis(node, "dim", -1, x->rank);
    const char *const inputs[] = {x->name, pt2_put_list(node, &out->dims[axis], 1)};
    Onnx__NodeProto *proto = pt2_put(node, "TopK", out->name, 2, inputs);
    pt2_put_int(node, proto, "axis", axis);
    if (node->output_count > 1) pt2_put_output(node, proto, pt2_output(node, 1));
    return is_clean(node);
}

bool pt2_instance_norm(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct pt2_value *x = pt2_first(node), *weight = pt2_tensor(node, "weight");
    const struct pt2_value *bias = pt2_tensor(node, "bias");
    if (!x || !weight || !bias)
        return is_clean(node) ? pt2_fail(node, "a factor and a bias are wanted") : false;
    const char *const inputs[] = {x->name, weight->name, bias->name};
    pt2_put_float(node, pt2_put(node, "InstanceNormalization", pt2_output(node, 0), 3, inputs),
                  "epsilon", pt2_number(node, "eps", 1e-5));
    return is_clean(node);
}
