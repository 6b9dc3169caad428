#include "models/onnx/chains_find.h"

#include <string.h>

// Layer norm where the opset has none: d = x - mean(x), d / sqrt(mean(d^2) + e), times a weight,
// plus a bias. Its last sum becomes the norm.

// Whether a value is this reduction of x over its last dimension, which stays as 1.
static bool is_row_of(const struct chain_model *c, int value, const char *type, int x)
{
    int maker = value < 0 ? -1 : c->maker[value];
    const struct onnx_call *made = maker < 0 ? NULL : &c->model->calls[maker];
    if (!made || made->is_folded || strcmp(made->type, type) != 0) return false;
    const struct onnx_value *from = &c->model->values[x], *to = &c->model->values[value];
    if (made->inputs[0] != x || from->rank < 1 || to->rank != from->rank) return false;
    for (int i = 0; i < from->rank; i++)
        if (to->dims[i] != (i + 1 < from->rank ? from->dims[i] : 1)) return false;
    return true;
}

static bool is_row_mean(const struct chain_model *c, int value, int x)
{
    return is_row_of(c, value, "ReduceMean", x);
}

// The d of d^2; -1: it is none.
static int rooted(const struct chain_model *c, int value)
{
    int d = chain_beside(c, value, "Pow", 2);
    const struct onnx_call *product = chain_maker(c, value, "Mul", 2);
    if (product && product->inputs[0] == product->inputs[1]) d = product->inputs[0];
    return d;
}

// The x of x - mean(x); -1: it is none.
static int centered(const struct chain_model *c, int d)
{
    const struct onnx_call *shifted = d < 0 ? NULL : chain_maker(c, d, "Sub", 2);
    bool is_it = shifted && is_row_mean(c, shifted->inputs[1], shifted->inputs[0]);
    return is_it ? shifted->inputs[0] : -1;
}

// Whether a value is sqrt(mean((x - mean(x))^2) + e).
static bool is_deviation(const struct chain_model *c, int value, int x)
{
    const struct onnx_call *root = chain_maker(c, value, "Sqrt", 1);
    const struct onnx_call *sum = root ? chain_maker(c, root->inputs[0], "Add", 2) : NULL;
    for (int i = 0; i < 2 && sum; i++) {
        int mean = sum->inputs[i], maker = c->maker[mean];
        if (maker < 0 || !chain_is_factor(c, sum->inputs[1 - i])) continue;
        const struct onnx_call *of = &c->model->calls[maker];
        if (of->input_count < 1 || of->is_folded || !is_row_mean(c, mean, of->inputs[0])) continue;
        if (centered(c, rooted(c, of->inputs[0])) == x) return true;
    }
    return false;
}

// The x of d / sqrt(...) or d times 1 / sqrt(...); -1: it is none.
static int normed(const struct chain_model *c, int value)
{
    const struct onnx_call *quotient = chain_maker(c, value, "Div", 2);
    const struct onnx_call *product = chain_maker(c, value, "Mul", 2);
    int x = quotient ? centered(c, quotient->inputs[0]) : -1;
    if (x >= 0 && is_deviation(c, quotient->inputs[1], x)) return x;
    for (int i = 0; i < 2 && product; i++) {
        const struct onnx_call *turned = chain_maker(c, product->inputs[i], "Reciprocal", 1);
        x = turned ? centered(c, product->inputs[1 - i]) : -1;
        if (x >= 0 && is_deviation(c, turned->inputs[0], x)) return x;
    }
    return -1;
}

// A constant with one number for each of the last dimension.
static bool is_row(const struct chain_model *c, int value, int x)
{
    const struct onnx_value *of = &c->model->values[value], *from = &c->model->values[x];
    return of->is_constant && of->rank == 1 && of->dims[0] == from->dims[from->rank - 1];
}

bool chain_join_norm(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Add") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 2; i++) {
        const struct onnx_call *scaled = chain_maker(c, call->inputs[i], "Mul", 2);
        if (!scaled || c->reader_count[call->inputs[i]] != 1) continue;
        for (int k = 0; k < 2; k++) {
            int whole = scaled->inputs[k], weight = scaled->inputs[1 - k];
            int bias = call->inputs[1 - i], x = normed(c, whole);
            bool is_alone = x >= 0 && c->reader_count[whole] == 1;
            if (!is_alone || !is_row(c, weight, x) || !is_row(c, bias, x)) continue;
            const int inputs[] = {x, weight, bias};
            chain_become(c, call, "LayerNormalization", inputs, 3);
            return true;
        }
    }
    return false;
}

// The x of x - max(x); -1: it is none.
static int below_maximum(const struct chain_model *c, int value)
{
    const struct onnx_call *shifted = chain_maker(c, value, "Sub", 2);
    bool is_it = shifted && is_row_of(c, shifted->inputs[1], "ReduceMax", shifted->inputs[0]);
    return is_it ? shifted->inputs[0] : -1;
}

// d = x - max(x): exp(d) / sum(exp(d)), or d - log(sum(exp(d))). The maximum has no part in the
// gradient.
bool chain_join_softmax(const struct chain_model *c, struct onnx_call *call)
{
    bool is_log = strcmp(call->type, "Sub") == 0;
    if ((!is_log && strcmp(call->type, "Div") != 0) || call->input_count != 2) return false;
    const struct onnx_call *log = is_log ? chain_maker(c, call->inputs[1], "Log", 1) : NULL;
    int sum = log ? log->inputs[0] : call->inputs[1], maker = sum < 0 ? -1 : c->maker[sum];
    if (maker < 0 || (is_log && !log) || c->model->calls[maker].input_count < 1) return false;
    int powers = c->model->calls[maker].inputs[0];
    const struct onnx_call *exp = chain_maker(c, powers, "Exp", 1);
    if (!exp || !is_row_of(c, sum, "ReduceSum", powers)) return false;
    int x = below_maximum(c, exp->inputs[0]);
    if (x < 0 || call->inputs[0] != (is_log ? exp->inputs[0] : powers)) return false;
    chain_become(c, call, is_log ? "LogSoftmax" : "Softmax", &x, 1);
    return true;
}
