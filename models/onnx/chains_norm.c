#include "models/onnx/chains_find.h"

#include <math.h>
#include <string.h>

// Norms where the opset has none: d = x - mean(x), d / sqrt(variance + e), times a weight, plus a
// bias, over the last dimension (layer norm) or over all but the channels (batch norm). Their
// variance is mean(d^2), or mean(x^2) - mean(x)^2, which rounding may bring below 0. The last sum
// becomes the norm.

enum kind { ROWS, CHANNELS, KINDS };

static int64_t kept_size(const struct onnx_value *from, enum kind kind, int i)
{
    bool is_kept = kind == ROWS ? i + 1 < from->rank : i == 1;
    return is_kept ? from->dims[i] : 1;
}

// Whether a value is this reduction of x, whose dimensions stay as 1.
static bool is_reduced(const struct chain_model *c, int value, const char *type, int x,
                       enum kind kind)
{
    value = chain_origin(c, value);
    int maker = value < 0 ? -1 : c->maker[value];
    const struct onnx_call *made = maker < 0 ? NULL : &c->model->calls[maker];
    if (!made || made->is_folded || strcmp(made->type, type) != 0) return false;
    const struct onnx_value *from = &c->model->values[x], *to = &c->model->values[value];
    if (chain_origin(c, made->inputs[0]) != chain_origin(c, x) || from->rank < 1 + (int)kind ||
        to->rank != from->rank)
        return false;
    for (int i = 0; i < from->rank; i++)
        if (to->dims[i] != kept_size(from, kind, i)) return false;
    return true;
}

static bool is_mean(const struct chain_model *c, int value, int x, enum kind kind)
{
    return is_reduced(c, value, "ReduceMean", x, kind);
}

int chain_rooted(const struct chain_model *c, int value)
{
    int d = chain_beside(c, value, "Pow", 2);
    const struct onnx_call *product = chain_maker(c, value, "Mul", 2);
    if (product && chain_origin(c, product->inputs[0]) == chain_origin(c, product->inputs[1]))
        d = chain_origin(c, product->inputs[0]);
    return d;
}

// The x of x - mean(x); -1: it is none.
static int centered(const struct chain_model *c, int d, enum kind kind)
{
    const struct onnx_call *shifted = d < 0 ? NULL : chain_maker(c, d, "Sub", 2);
    bool is_it = shifted && is_mean(c, shifted->inputs[1], shifted->inputs[0], kind);
    return is_it ? chain_origin(c, shifted->inputs[0]) : -1;
}

// What is averaged; -1: it is no mean.
static int averaged(const struct chain_model *c, int value, enum kind kind)
{
    value = chain_origin(c, value);
    int maker = value < 0 ? -1 : c->maker[value];
    const struct onnx_call *of = maker < 0 ? NULL : &c->model->calls[maker];
    bool is_it = of && of->input_count > 0 && is_mean(c, value, of->inputs[0], kind);
    return is_it ? of->inputs[0] : -1;
}

static bool is_variance(const struct chain_model *c, int value, int x, enum kind kind)
{
    if (centered(c, chain_rooted(c, averaged(c, value, kind)), kind) == x) return true;
    const struct onnx_call *above = chain_maker(c, value, "Relu", 1);
    const struct onnx_call *apart = chain_maker(c, above ? above->inputs[0] : value, "Sub", 2);
    return apart && chain_rooted(c, averaged(c, apart->inputs[0], kind)) == x &&
           is_mean(c, chain_rooted(c, apart->inputs[1]), x, kind);
}

// Whether a value is sqrt(variance of x + e), or 1 over it; e is a number.
static bool is_deviation(const struct chain_model *c, int value, bool is_inverse, int x,
                         enum kind kind, int *epsilon)
{
    const struct onnx_call *turned = is_inverse ? chain_maker(c, value, "Reciprocal", 1) : NULL;
    if (is_inverse && !turned) return false;
    const struct onnx_call *root = chain_maker(c, turned ? turned->inputs[0] : value, "Sqrt", 1);
    const struct onnx_call *sum = root ? chain_maker(c, root->inputs[0], "Add", 2) : NULL;
    for (int i = 0; i < 2 && sum; i++) {
        *epsilon = sum->inputs[1 - i];
        if (chain_is_factor(c, *epsilon) && is_variance(c, sum->inputs[i], x, kind)) return true;
    }
    return false;
}

// The weight of one number for each of the last dimension, or of the channels, as it lies; -1: it
// is none.
static int vector_of(const struct chain_model *c, int value, int x, enum kind kind)
{
    const struct onnx_value *from = &c->model->values[x];
    const struct onnx_call *shaped = chain_maker(c, value, "Reshape", 2);
    const struct onnx_value *seen = &c->model->values[value];
    int source = chain_origin(c, kind == CHANNELS && shaped ? shaped->inputs[0] : value);
    int64_t size = from->dims[kind == ROWS ? from->rank - 1 : 1];
    if (kind == CHANNELS && from->rank - 1 > seen->rank) return -1;
    bool lies_so = kind == ROWS || seen->dims[seen->rank - from->rank + 1] == size;
    const struct onnx_value *own = &c->model->values[source];
    return lies_so && own->is_constant && own->rank == 1 && own->dims[0] == size ? source : -1;
}

int chain_vector(const struct chain_model *c, int value, int64_t size)
{
    const struct onnx_call *shaped = chain_maker(c, value, "Reshape", 2);
    if (!shaped) shaped = chain_maker(c, value, "Unsqueeze", 2);
    int source = chain_origin(c, shaped ? shaped->inputs[0] : value);
    const struct onnx_value *own = &c->model->values[source];
    return own->is_constant && own->rank == 1 && own->dims[0] == size ? source : -1;
}

struct norm {
    int x, weight, epsilon;
};

// d over the deviation times the weight, in either order of these two.
static bool find_norm(const struct chain_model *c, const struct onnx_call *scaled, int i,
                      enum kind kind, struct norm *norm)
{
    int left = scaled->inputs[i], right = scaled->inputs[1 - i];
    norm->x = centered(c, left, kind);
    const struct onnx_call *factor = chain_maker(c, right, "Mul", 2);
    for (int k = 0; k < 2 && factor && norm->x >= 0; k++) {
        norm->weight = vector_of(c, factor->inputs[1 - k], norm->x, kind);
        if (norm->weight < 0 || c->reader_count[right] != 1) continue;
        if (is_deviation(c, factor->inputs[k], true, norm->x, kind, &norm->epsilon)) return true;
    }
    const struct onnx_call *quotient = chain_maker(c, left, "Div", 2);
    const struct onnx_call *whole = quotient ? quotient : chain_maker(c, left, "Mul", 2);
    for (int k = 0; k < (quotient ? 1 : 2) && whole && c->reader_count[left] == 1; k++) {
        norm->x = centered(c, whole->inputs[k], kind);
        if (norm->x < 0) continue;
        norm->weight = vector_of(c, right, norm->x, kind);
        if (norm->weight >= 0 &&
            is_deviation(c, whole->inputs[1 - k], !quotient, norm->x, kind, &norm->epsilon))
            return true;
    }
    return false;
}

bool chain_join_norm(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Add") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 4 * KINDS; i++) {
        enum kind kind = (enum kind)(i / 4);
        int sum = call->inputs[i & 1], other = call->inputs[1 - (i & 1)];
        const struct onnx_call *scaled = chain_maker(c, sum, "Mul", 2);
        struct norm norm = {0};
        if (!scaled || c->reader_count[sum] != 1) continue;
        if (!find_norm(c, scaled, i >> 1 & 1, kind, &norm)) continue;
        int bias = vector_of(c, other, norm.x, kind);
        const struct onnx_value *epsilon = &c->model->values[norm.epsilon];
        if (bias < 0 || (kind == CHANNELS && !epsilon->numbers)) continue;
        const int inputs[] = {norm.x, norm.weight, bias};
        chain_become(c, call, kind == ROWS ? "LayerNormalization" : "BatchNormalization", inputs,
                     3);
        double number = epsilon->numbers ? epsilon->numbers[0] : (double)NAN;  // not known
        chain_say(c, call, "epsilon", number);
        return true;
    }
    return false;
}

// The x of x - max(x); -1: it is none.
static int below_maximum(const struct chain_model *c, int value)
{
    const struct onnx_call *shifted = chain_maker(c, value, "Sub", 2);
    bool is_it =
        shifted && is_reduced(c, shifted->inputs[1], "ReduceMax", shifted->inputs[0], ROWS);
    return is_it ? chain_origin(c, shifted->inputs[0]) : -1;
}

// d = x - max(x): exp(d) / sum(exp(d)), or d - log(sum(exp(d))). The maximum has no part in the
// gradient.
bool chain_join_softmax(const struct chain_model *c, struct onnx_call *call)
{
    bool is_log = strcmp(call->type, "Sub") == 0;
    if ((!is_log && strcmp(call->type, "Div") != 0) || call->input_count != 2) return false;
    const struct onnx_call *log = is_log ? chain_maker(c, call->inputs[1], "Log", 1) : NULL;
    int sum = chain_origin(c, log ? log->inputs[0] : call->inputs[1]);
    int maker = sum < 0 ? -1 : c->maker[sum];
    if (maker < 0 || (is_log && !log) || c->model->calls[maker].input_count < 1) return false;
    int powers = chain_origin(c, c->model->calls[maker].inputs[0]);
    const struct onnx_call *exp = chain_maker(c, powers, "Exp", 1);
    if (!exp || !is_reduced(c, sum, "ReduceSum", powers, ROWS)) return false;
    int x = below_maximum(c, exp->inputs[0]);
    int over = is_log ? chain_origin(c, exp->inputs[0]) : powers;
    if (x < 0 || chain_origin(c, call->inputs[0]) != over) return false;
    chain_become(c, call, is_log ? "LogSoftmax" : "Softmax", &x, 1);
    return true;
}
