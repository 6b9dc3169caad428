#pragma once
#include "executor/kernel.h"

#include <stdbool.h>

// Questions about the arrays of a call, alike for all back ends.

static inline int64_t array_elements(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 0; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

// Position of a dim or -1.
static inline int array_find(const struct kernel_array *array, enum dim dim)
{
    for (int i = 0; i < array->rank; i++) {
        if (array->dims[i] == dim) return i;
    }
    return -1;
}

// Size of a dim here, 1 when the array lacks it; and where it begins.
static inline int64_t array_size(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 1 : array->sizes[at];
}
static inline int64_t array_first(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 0 : array->first[at];
}
static inline int64_t array_whole(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 1 : array->whole[at];
}

static inline int64_t array_last(const struct kernel_array *array)
{
    return array->rank > 0 ? array->sizes[array->rank - 1] : 1;
}

// Elements that a step along position `at` skips.
static inline int64_t array_stride(const struct kernel_array *array, int at)
{
    int64_t stride = 1;
    if (array->row_stride && at <= 1) return array->row_stride * (at == 0 ? array->sizes[1] : 1);
    for (int i = at + 1; i < array->rank; i++)
        stride *= array->sizes[i];
    return stride;
}

// Rows of (batch, seq).
static inline bool array_has_rows(const struct kernel_array *array)
{
    return array->rank > 2 && array->dims[0] == DIM_BATCH && array->dims[1] == DIM_SEQ;
}
// Elements of one row.
static inline int64_t array_row(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 2; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

// Whether rows of an operand lie apart.
static inline bool call_is_apart(const struct kernel_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->inputs[i].row_stride) return true;
    }
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i].row_stride) return true;
    }
    return false;
}

// Whether the result is added to what is there.
static inline bool call_adds(const struct kernel_call *call, int output)
{
    return call->adds >> output & 1;
}

// Whether the rows of this array exist for the chosen tokens only.
static inline bool array_is_ragged(const struct kernel_array *array)
{
    return array_find(array, DIM_EXPERT) >= 0 && array_find(array, DIM_SEQ) >= 0;
}
