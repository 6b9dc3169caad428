#pragma once
#include "models/op.h"

// OP_LINEAR_LOSS: x (batch, seq, hidden), weight (hidden, vocab or turned), labels (batch, seq) ->
// loss, log-sum-exp, both (batch, seq): softmax cross entropy of the scores x . weight, as OP_LOSS
// of them. The columns are cut into `chunk` parts (struct op): of one after the other the scores
// are made, and what they add to the log-sum-exp is kept (Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax"). Nothing as large as the vocabulary is in memory.
//
// OP_LINEAR_LOSS_BACKWARD: d_loss, x, weight, labels, log-sum-exp -> d_x(, d_weight): makes the
// scores of each part once more, and of them the gradient that both results are products with. So
// backward has three products where it has two of scores that were kept.

// Ranks that hold parts of the vocabulary reduce the largest log-sum-exp, the sum of exponentials
// and the label's score. What is multiplied has to be whole.
enum split op_linear_loss_split(const struct block *block, const struct op *op, enum dim dim);
double op_linear_loss_flop(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT]);

// One of its products: scores of all columns here, from local extents.
struct gemm op_linear_loss_gemm(const struct block *block, const struct op *op,
                                const int64_t size[DIM_COUNT]);

// Puts it where a head has the product of a matrix with the loss of its scores alone behind it, so
// many `parts` of the columns at a time; false where it has no such pair, or another loss beside.
// The blocks get arrays of their own in `arena`. (models/match_loss.c)
bool match_loss_graph(struct arena *arena, struct graph *graph, int parts);
