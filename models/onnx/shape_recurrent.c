#include "models/onnx/shape.h"

#include <inttypes.h>
#include <string.h>

// LSTM, GRU and RNN: a step for each place of a sequence, each the product of what is read and of
// the state before with matrices of `gates` times hidden rows. Sequences stand in front of samples,
// or behind them (layout 1); in both directions there are two of each matrix.

int recurrent_gates(const char *type)
{
    return strcmp(type, "LSTM") == 0 ? 4 : strcmp(type, "GRU") == 0 ? 3 : 1;
}

static bool has_dims(const struct onnx_value *value, int rank, const int64_t *dims)
{
    bool is_right = value && value->rank == rank;
    for (int i = 0; i < rank && is_right; i++)
        is_right = value->dims[i] == dims[i];
    return is_right;
}

bool shape_recurrent(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *x = call_input(model, call, 0), *r = call_input(model, call, 2);
    const struct onnx_value *w = call_input(model, call, 1), *b = call_input(model, call, 3);
    int64_t directions = attribute_is(call, "direction", "bidirectional") ? 2 : 1;
    int64_t hidden = attribute_int(call, "hidden_size", 0), gates = recurrent_gates(call->type);
    bool is_turned = attribute_int(call, "layout", 0) != 0;
    if (x->rank != 3 || hidden < 1 || hidden > (INT64_C(1) << 31)) {
        return call_fail(model, call,
                         "input %s has %d dimensions, and hidden_size is %" PRId64
                         "; 3 and at least 1 are wanted",
                         x->name, x->rank, hidden);
    }
    const int64_t of_input[] = {directions, gates * hidden, x->dims[2]};
    const int64_t of_state[] = {directions, gates * hidden, hidden};
    const int64_t of_bias[] = {directions, 2 * gates * hidden};
    if (!has_dims(w, 3, of_input) || !has_dims(r, 3, of_state) || (b && !has_dims(b, 2, of_bias))) {
        return call_fail(model, call,
                         "its weights are not those of %" PRId64 " gates of %" PRId64
                         " for input %s",
                         gates, hidden, x->name);
    }
    int64_t places = x->dims[is_turned], batch = x->dims[!is_turned];
    const int64_t all[] = {places, directions, batch, hidden};
    const int64_t all_turned[] = {batch, places, directions, hidden};
    const int64_t last[] = {directions, batch, hidden}, last_turned[] = {batch, directions, hidden};
    double rows = (double)places * (double)batch * (double)directions;
    call->flop = 2 * rows * (double)(gates * hidden) * (double)(x->dims[2] + hidden);
    return set_output(model, call, 0, x->element, 4, is_turned ? all_turned : all) &&
           set_output(model, call, 1, x->element, 3, is_turned ? last_turned : last) &&
           set_output(model, call, 2, x->element, 3, is_turned ? last_turned : last);
}
