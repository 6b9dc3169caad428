#pragma once
#include "executor/array.h"

// An einsum of two inputs as products of matrices: dims in both inputs and the output are looped
// over, those of the output and one input become rows and columns, those of the inputs alone are
// summed. Neighbours that lie one after another in memory are one dim; what is left over of a group
// is looped over too. Part of every plug-in, not of the binary.

// One dim, and how far a step along it leads in each array; 0 where one lacks it.
struct axis_of {
    int64_t size, a, b, c;
};
struct axes {
    struct axis_of axis[2 * TENSOR_RANK_MAX];
    int count;
};
struct einsum {
    struct axes loops, rows, columns, inner, inner_loops;
    struct axis_of row, column, sum;  // of one product
};

// Elements past the beginning of each array.
struct contraction_place {
    int64_t a, b, c;
};

// Every dim has one size: NULL, or the rule that is broken.
const char *einsum_check(const struct kernel_call *call);
// No array may be empty.
struct einsum einsum_of(const struct kernel_call *call);
// Counts through the loops, the last fastest; false when all are done, with `place` as at first.
bool einsum_next(const struct axes *loops, int64_t index[], struct contraction_place *place);
