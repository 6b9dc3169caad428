#include "models/onnx/chains.h"

#include "models/onnx/operators.h"

#include <math.h>
#include <string.h>

// How exporters write GELU where their opset has none: x / sqrt(2), Erf, + 1, times x and a half in
// either order; or x + 0.044715 x^3, times sqrt(2 / pi), Tanh, and so on. Its last product becomes
// the function, and what that no longer reads does not run.

struct chains {
    const struct onnx_model *model;
    int *maker;  // of a value: the call that makes it, or -1
};

static const double SLACK = 1e-3;  // constants are written with few digits, or in 16 bits

static bool is_number(const struct chains *c, int value, double number)
{
    const struct onnx_value *of = &c->model->values[value];
    bool is_one = of->numbers && of->elements == 1;
    return is_one && fabs(of->numbers[0] - number) <= SLACK * fabs(number);
}

static const struct onnx_call *made_by(const struct chains *c, int value, const char *type)
{
    int maker = c->maker[value];
    const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
    bool is_it = call && strcmp(call->type, type) == 0 && !call->is_folded;
    bool is_unary = strcmp(type, "Erf") == 0 || strcmp(type, "Tanh") == 0;
    return is_it && call->input_count == (is_unary ? 1 : 2) ? call : NULL;
}

// What is beside a number in a sum, product or quotient; -1: it is none of these.
static int beside(const struct chains *c, int value, const char *type, double number)
{
    const struct onnx_call *call = made_by(c, value, type);
    if (!call) return -1;
    if (is_number(c, call->inputs[1], number)) return call->inputs[0];
    bool turns = strcmp(type, "Div") != 0;
    return turns && is_number(c, call->inputs[0], number) ? call->inputs[1] : -1;
}

// Whether a value is this power of x.
static bool is_cube(const struct chains *c, int value, int x)
{
    if (beside(c, value, "Pow", 3) == x) return true;
    const struct onnx_call *product = made_by(c, value, "Mul");
    for (int i = 0; i < 2 && product; i++) {
        const struct onnx_call *square = made_by(c, product->inputs[i], "Mul");
        bool is_square = square && square->inputs[0] == x && square->inputs[1] == x;
        if (is_square && product->inputs[1 - i] == x) return true;
    }
    return false;
}

// Of erf(x / sqrt(2)) or tanh(sqrt(2 / pi) (x + 0.044715 x^3)): whether it is that of this x.
static bool is_bent(const struct chains *c, int value, int x, const char **mode)
{
    const struct onnx_call *erf = made_by(c, value, "Erf"), *tanh = made_by(c, value, "Tanh");
    *mode = tanh ? "tanh" : NULL;
    if (erf)
        return beside(c, erf->inputs[0], "Div", sqrt(2)) == x ||
               beside(c, erf->inputs[0], "Mul", sqrt(0.5)) == x;
    if (!tanh) return false;
    int sum = beside(c, tanh->inputs[0], "Mul", 0.7978845608);
    const struct onnx_call *add = sum < 0 ? NULL : made_by(c, sum, "Add");
    for (int i = 0; i < 2 && add; i++) {
        int cube = beside(c, add->inputs[i], "Mul", 0.044715);
        if (add->inputs[1 - i] == x && cube >= 0 && is_cube(c, cube, x)) return true;
    }
    return false;
}

// The x of (1 + bent) times x, whose half is `half`: x itself, or what half of it is.
static int gelu_of(const struct chains *c, int shifted, int factor, bool is_halved,
                   const char **mode)
{
    int bent = beside(c, shifted, "Add", 1), x = factor;
    if (bent < 0) return -1;
    if (is_halved) {
        x = beside(c, factor, "Mul", 0.5);
        if (x < 0) x = beside(c, factor, "Div", 2);
    }
    return x >= 0 && is_bent(c, bent, x, mode) ? x : -1;
}

// The input of the GELU that this product ends; -1: it ends none.
static int find_gelu(const struct chains *c, const struct onnx_call *last, const char **mode)
{
    if (strcmp(last->type, "Mul") != 0 || last->input_count != 2 || last->is_folded) return -1;
    int whole = is_number(c, last->inputs[1], 0.5)   ? last->inputs[0]
                : is_number(c, last->inputs[0], 0.5) ? last->inputs[1]
                                                     : -1;
    const struct onnx_call *product = whole < 0 ? last : made_by(c, whole, "Mul");
    for (int i = 0; i < 2 && product; i++) {
        int x = gelu_of(c, product->inputs[i], product->inputs[1 - i], whole < 0, mode);
        if (x >= 0) return x;
    }
    return -1;
}

void chains_join(struct onnx_model *model)
{
    struct chains c = {.model = model, .maker = ARENA_NEW(model->arena, int, model->value_count)};
    for (int v = 0; v < model->value_count; v++)
        c.maker[v] = -1;
    for (int i = 0; i < model->call_count; i++) {
        struct onnx_call *call = &model->calls[i];
        const char *mode = NULL;
        for (int o = 0; o < call->output_count; o++)
            if (call->outputs[o] >= 0) c.maker[call->outputs[o]] = i;
        int x = find_gelu(&c, call, &mode);
        if (x < 0) continue;
        int *inputs = ARENA_NEW(model->arena, int, 1);
        inputs[0] = x;
        call->inputs = inputs;
        call->input_count = 1;
        call->type = "Gelu";
        call->mode = mode;
        call->row = operator_find("", "Gelu");
        call->flop = 0;
    }
}
