#pragma once
#include "models/op.h"

// The rules of OP_CONCAT, OP_PART and OP_CONCAT_BACKWARD, for the table of models/op.c.

// The last dims are joined, or text and seq to `joint`, so each rank needs them whole. Every other
// dim of the result is free: an input that lacks it (the rope part that all heads share) is whole
// for every slice of the result, and its gradient, which backward sums over that dim, is then
// partial.
enum split op_concat_split(const struct block *block, const struct op *op, enum dim dim);

// The additions of that sum; parts that nothing repeated are copied.
double op_concat_backward_flop(const struct block *block, const struct op *op,
                               const int64_t size[DIM_COUNT]);
