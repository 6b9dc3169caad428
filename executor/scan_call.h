#pragma once
#include "executor/array.h"
#include "models/op_scan.h"
#include "plan/walked.h"

// Questions about the calls of convolutions and scans (models/op_scan.h), alike for all back ends:
// NULL, or what is wrong with the inputs from x on.

static inline bool call_is_by_head(const struct kernel_array *array)
{
    return array->rank == 3 && array->dims[2] == DIM_HEAD;
}

// Whether A has a number for each of the state.
static inline bool call_is_by_state(const struct kernel_call *call, int first_input)
{
    return !op_scan_is_steady(call->op) && call->inputs[first_input + 4].rank > 1;
}

// The first inputs of both recurrences are alike, but for Mamba-1's.
static inline const char *call_check_heads(const struct kernel_call *call, int first_input,
                                           bool are_channels)
{
    const struct kernel_array *x = &call->inputs[first_input];
    const struct kernel_array *b = &call->inputs[op_scan_b(call->op)], *c = b + 1;
    bool are_heads = array_is_of_heads(x, DIM_HEAD) && array_is_of_heads(b, DIM_KV_HEAD) &&
                     array_is_of_heads(c, DIM_KV_HEAD);
    if (are_channels) are_heads = call_is_by_head(x) && b->rank == 3 && c->rank == 3;
    if (!are_heads) return "a scan wants (batch, seq, head, width) and a step for each head";
    if (call_is_apart(call)) return "a scan wants rows that follow one another";
    if (x->sizes[1] != x->whole[1]) return "a scan wants its sequence whole";
    if (!are_channels && (b->whole[2] <= 0 || x->whole[2] % b->whole[2] != 0))
        return "heads of a scan are no multiple of its groups";
    return NULL;
}

static inline const char *call_check_scan(const struct kernel_call *call, int first_input)
{
    bool is_steady = op_scan_is_steady(call->op);
    bool has_step = is_steady || call_is_by_head(&call->inputs[first_input + 1]);
    if (!has_step) return "a scan wants (batch, seq, head, width) and a step for each head";
    return call_check_heads(call, first_input, call_is_by_state(call, first_input));
}

// The gated delta rule (models/op_delta.h).
static inline const char *call_check_delta(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *v = &call->inputs[first_input], *dt = v + 1, *k = v + 2;
    bool by_channel = array_is_of_heads(dt, DIM_HEAD) && dt->sizes[3] == k->sizes[3];
    if (!call_is_by_head(dt) && !by_channel)
        return "a delta rule wants a step for each head, or for each channel of its keys";
    if (!call_is_by_head(v + 5)) return "a delta rule wants a beta for each head";
    return call_check_heads(call, first_input, false);
}

static inline const char *call_check_conv(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *x = &call->inputs[first_input], *weight = x + 1;
    if (!array_has_rows(x) || array_find(weight, DIM_TAP) != weight->rank - 1)
        return "a convolution wants (batch, seq, ...) and taps last";
    if (call_is_apart(call)) return "a convolution wants rows that follow one another";
    if (x->sizes[1] != x->whole[1]) return "a convolution wants its sequence whole";
    bool fits = array_row(x) * array_last(weight) == array_elements(weight);
    return fits ? NULL : "channels and taps of a convolution do not fit together";
}
