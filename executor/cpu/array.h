#pragma once
#include "executor/array.h"
#include "executor/cpu/cpu.h"

#include <string.h>

// Arrays of this back end's reals that are sums: they start as they are, or from zeros.

static inline void array_zero(const struct kernel_array *array)
{
    int64_t rows = array->row_stride ? array->sizes[0] * array->sizes[1] : 1;
    size_t bytes = (size_t)(array_elements(array) / (rows > 0 ? rows : 1)) * sizeof(REAL);
    for (int64_t i = 0; i < rows; i++)
        memset((REAL *)array->data + i * array->row_stride, 0, bytes);
}

static inline int64_t array_element_bytes(const struct kernel_array *array)
{
    return array->element == ELEMENT_BYTE    ? 1
           : array->element == ELEMENT_INT64 ? (int64_t)sizeof(int64_t)
                                             : (int64_t)sizeof(REAL);
}

// `count` rows of one sequence, from `first` on; arrays without rows stay as they are.
static inline void array_cut_rows(struct kernel_array *array, int64_t batch, int64_t first,
                                  int64_t count)
{
    if (!array_has_rows(array)) return;
    int64_t rows = batch * array->sizes[1] + first;
    array->data = (char *)array->data + rows * array_stride(array, 1) * array_element_bytes(array);
    array->sizes[0] = 1;
    array->sizes[1] = count;
    array->first[0] += batch;
    array->first[1] += first;
    if (count == 1) array->row_stride = 0;
}

static inline void call_begin_sum(const struct kernel_call *call, int output)
{
    if (!call_adds(call, output)) array_zero(&call->outputs[output]);
}
