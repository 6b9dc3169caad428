#pragma once
#include "executor/array.h"
#include "executor/cpu/cpu.h"

#include <string.h>

// Arrays of this back end's reals that are sums: they start as they are, or from zeros.

static inline void array_zero(const struct kernel_array *array)
{
    memset(array->data, 0, (size_t)array_elements(array) * sizeof(REAL));
}

static inline void call_begin_sum(const struct kernel_call *call, int output)
{
    if (!call_adds(call, output)) array_zero(&call->outputs[output]);
}
