#include "models/onnx/chains_find.h"

#include <math.h>
#include <string.h>

// How exporters write GELU where their opset has none: x / sqrt(2), Erf, + 1, times x and a half in
// any order; or x + 0.044715 x^3, times sqrt(2 / pi), Tanh, and so on. Its last product becomes
// the function, and what that no longer reads does not run.

// Whether a value is this power of x.
static bool is_cube(const struct chain_model *c, int value, int x)
{
    if (chain_beside(c, value, "Pow", 3) == x) return true;
    const struct onnx_call *product = chain_maker(c, value, "Mul", 2);
    for (int i = 0; i < 2 && product; i++) {
        const struct onnx_call *square = chain_maker(c, product->inputs[i], "Mul", 2);
        bool is_square = square && chain_origin(c, square->inputs[0]) == x &&
                         chain_origin(c, square->inputs[1]) == x;
        if (is_square && chain_origin(c, product->inputs[1 - i]) == x) return true;
    }
    return false;
}

// Of erf(x / sqrt(2)) or tanh(sqrt(2 / pi) (x + 0.044715 x^3)): whether it is that of this x.
static bool is_bent(const struct chain_model *c, int value, int x, const char **mode)
{
    const struct onnx_call *erf = chain_maker(c, value, "Erf", 1),
                           *tanh = chain_maker(c, value, "Tanh", 1);
    *mode = tanh ? "tanh" : NULL;
    if (erf)
        return chain_beside(c, erf->inputs[0], "Div", sqrt(2)) == x ||
               chain_beside(c, erf->inputs[0], "Mul", sqrt(0.5)) == x;
    if (!tanh) return false;
    int sum = chain_beside(c, tanh->inputs[0], "Mul", 0.7978845608);
    const struct onnx_call *add = sum < 0 ? NULL : chain_maker(c, sum, "Add", 2);
    for (int i = 0; i < 2 && add; i++) {
        int cube = chain_beside(c, add->inputs[i], "Mul", 0.044715);
        if (chain_origin(c, add->inputs[1 - i]) == x && cube >= 0 && is_cube(c, cube, x))
            return true;
    }
    return false;
}

// The x of (1 + bent) times x, whose half is `half`: x itself, or what half of it is.
static int gelu_of(const struct chain_model *c, int shifted, int factor, bool is_halved,
                   const char **mode)
{
    int bent = chain_beside(c, shifted, "Add", 1), x = factor;
    if (bent < 0) return -1;
    if (is_halved) {
        x = chain_beside(c, factor, "Mul", 0.5);
        if (x < 0) x = chain_beside(c, factor, "Div", 2);
    }
    return x >= 0 && is_bent(c, bent, x, mode) ? x : -1;
}

// The input of the GELU that this product ends; -1: it ends none.
static int find_gelu(const struct chain_model *c, const struct onnx_call *last, const char **mode)
{
    if (strcmp(last->type, "Mul") != 0 || last->input_count != 2 || last->is_folded) return -1;
    int whole = chain_is_number(c, last->inputs[1], 0.5)   ? last->inputs[0]
                : chain_is_number(c, last->inputs[0], 0.5) ? last->inputs[1]
                                                           : -1;
    const struct onnx_call *product = whole < 0 ? last : chain_maker(c, whole, "Mul", 2);
    for (int i = 0; i < 2 && product; i++) {
        int factor = chain_origin(c, product->inputs[1 - i]);
        int half = whole < 0 ? chain_beside(c, product->inputs[i], "Mul", 0.5) : -1;
        int x = gelu_of(c, product->inputs[i], factor, whole < 0, mode);
        if (x < 0 && half >= 0) x = gelu_of(c, half, factor, false, mode);
        if (x >= 0) return x;
    }
    return -1;
}

bool chain_join_gelu(const struct chain_model *c, struct onnx_call *call)
{
    const char *mode = NULL;
    int x = find_gelu(c, call, &mode);
    if (x < 0) return false;
    chain_become(c, call, "Gelu", &x, 1);
    call->mode = mode;
    return true;
}

// x times a function of it that has an operator of its own with x: sigmoid(x), tanh(softplus(x)).
bool chain_join_product(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Mul") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 2; i++) {
        int x = call->inputs[1 - i], factor = call->inputs[i];
        const struct onnx_call *sigmoid = chain_maker(c, factor, "Sigmoid", 1);
        const struct onnx_call *tanh = chain_maker(c, factor, "Tanh", 1);
        const struct onnx_call *softplus =
            tanh ? chain_maker(c, tanh->inputs[0], "Softplus", 1) : NULL;
        x = chain_origin(c, x);
        bool is_swish =
            sigmoid && chain_origin(c, sigmoid->inputs[0]) == x && c->reader_count[factor] == 1;
        bool is_mish =
            softplus && chain_origin(c, softplus->inputs[0]) == x && c->reader_count[factor] == 1;
        if (!is_swish && !is_mish) continue;
        chain_become(c, call, is_swish ? "Swish" : "Mish", &x, 1);
        return true;
    }
    return false;
}

// 1 / (1 + exp(-x)).
bool chain_join_sigmoid(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Div") != 0 || call->input_count != 2) return false;
    int shifted = call->inputs[1], power = chain_beside(c, shifted, "Add", 1);
    const struct onnx_call *exp = power < 0 ? NULL : chain_maker(c, power, "Exp", 1);
    const struct onnx_call *turned = exp ? chain_maker(c, exp->inputs[0], "Neg", 1) : NULL;
    if (!turned || !chain_is_number(c, call->inputs[0], 1)) return false;
    int x = chain_origin(c, turned->inputs[0]);
    chain_become(c, call, "Sigmoid", &x, 1);
    return true;
}
