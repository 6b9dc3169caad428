#pragma once
#include "models/op.h"

// What the table of operators knows of fused attention and its backward (models/op.c).

enum split op_attention_split(const struct block *block, const struct op *op, enum dim dim);
double op_attention_flop(const struct block *block, const struct op *op,
                         const int64_t size[DIM_COUNT]);
double op_attention_backward_flop(const struct block *block, const struct op *op,
                                  const int64_t size[DIM_COUNT]);
