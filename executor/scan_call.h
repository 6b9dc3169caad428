#pragma once
#include "executor/array.h"

// Questions about the calls of convolutions and scans (models/op_scan.h), alike for all back ends:
// NULL, or what is wrong with the inputs from x on.

static inline const char *call_check_scan(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *x = &call->inputs[first_input], *dt = x + 1, *b = x + 2, *c = x + 3;
    bool are_heads = array_is_of_heads(x, DIM_HEAD) && dt->rank == 3 && dt->dims[2] == DIM_HEAD &&
                     array_is_of_heads(b, DIM_KV_HEAD) && array_is_of_heads(c, DIM_KV_HEAD);
    if (!are_heads) return "a scan wants (batch, seq, head, width) and a step for each head";
    if (call_is_apart(call)) return "a scan wants rows that follow one another";
    if (x->sizes[1] != x->whole[1]) return "a scan wants its sequence whole";
    if (b->whole[2] <= 0 || x->whole[2] % b->whole[2] != 0)
        return "heads of a scan are no multiple of its groups";
    return NULL;
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

// Tokens from a state that backward keeps to the next: about the root of their number, so that
// states that are kept and those between two of them are as many.
static inline int64_t scan_stride(int64_t seq)
{
    int64_t stride = 1;
    while (stride * stride < seq)
        stride++;
    return stride;
}
