#include "models/onnx/chains_find.h"

#include <math.h>
#include <string.h>

// Dropout, of numbers or of whole samples (Huang et al. 2016, stochastic depth), as exporters of
// PyTorch write what draws with bernoulli_ or rand: x times (drawn < kept) / kept, or x / kept
// times floor(kept + drawn).

static const struct onnx_call *maker_of(const struct chain_model *c, int value)
{
    int maker = value < 0 ? -1 : c->maker[value];
    const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
    return call && !call->is_folded ? call : NULL;
}

static bool is(const struct onnx_call *call, const char *type)
{
    return call && strcmp(call->type, type) == 0;
}

// Behind casts to any type.
static const struct onnx_call *cast_from(const struct chain_model *c, int value)
{
    const struct onnx_call *call = maker_of(c, value);
    while (is(call, "Cast") || is(call, "CastLike"))
        call = maker_of(c, call->inputs[0]);
    return call;
}

static bool is_drawn(const struct chain_model *c, int value)
{
    const struct onnx_call *call = cast_from(c, value);
    return is(call, "RandomUniformLike") && attribute_float(call, "low", 0) == 0 &&
           attribute_float(call, "high", 1) == 1;
}

static double number_of(const struct chain_model *c, int value)
{
    const struct onnx_value *of = &c->model->values[value];
    return of->numbers && of->elements == 1 ? of->numbers[0] : (double)NAN;
}

// The share of ones among zeros and ones that are drawn; NaN: these are none.
static double share_of_ones(const struct chain_model *c, int value)
{
    const struct onnx_call *call = cast_from(c, value);
    if (is(call, "Less") && is_drawn(c, call->inputs[0])) return number_of(c, call->inputs[1]);
    const struct onnx_call *sum = is(call, "Floor") ? maker_of(c, call->inputs[0]) : NULL;
    for (int i = 0; is(sum, "Add") && i < 2; i++)
        if (is_drawn(c, sum->inputs[i])) return number_of(c, sum->inputs[1 - i]);
    return (double)NAN;
}

// Of what is divided by this share what it was before; -1: it is not.
static int undivided(const struct chain_model *c, int value, double share)
{
    const struct onnx_call *call = maker_of(c, value);
    return is(call, "Div") && chain_is_number(c, call->inputs[1], share) ? call->inputs[0] : -1;
}

// The operator that a product with this noise is; NULL: it has another shape.
static const char *drop_of(const struct onnx_value *x, const struct onnx_value *noise)
{
    bool is_each = x->rank == noise->rank && x->rank > 0, is_sample = is_each;
    for (int i = 0; is_each || is_sample; i++) {
        if (i == x->rank) return is_each ? "Dropout" : "DropPath";
        is_each = is_each && noise->dims[i] == x->dims[i];
        is_sample = is_sample && noise->dims[i] == (i == 0 ? x->dims[0] : 1);
    }
    return NULL;
}

bool chain_join_drop(const struct chain_model *c, struct onnx_call *call)
{
    if (!is(call, "Mul") || call->input_count != 2) return false;
    for (int i = 0; i < 2; i++) {
        int noise = call->inputs[i], x = call->inputs[1 - i];
        const struct onnx_call *scaled = maker_of(c, noise);
        int ones = is(scaled, "Div") ? scaled->inputs[0] : noise;
        double share = share_of_ones(c, ones);
        if (!(share > 0) || !(share < 1) || c->reader_count[noise] != 1) continue;
        if (ones != noise && undivided(c, noise, share) < 0) continue;
        if (ones == noise) x = undivided(c, x, share);
        const char *type = x < 0 ? NULL : drop_of(&c->model->values[x], &c->model->values[noise]);
        if (!type) continue;
        chain_become(c, call, type, &x, 1);
        chain_say(c, call, "ratio", 1 - share);
        return true;
    }
    return false;
}
