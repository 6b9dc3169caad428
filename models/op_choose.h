#pragma once
#include "models/op.h"

// The rules of OP_CHOOSE and its backward, for the table of models/op.c.
//
// OP_CHOOSE is the lightning indexer of DeepSeek-V3.2 behind its projections (DeepSeek-AI 2025,
// arXiv 2512.02556, section 2.1, equation 1). Inputs q (batch, seq, index_head, head_dim), k
// (batch, seq, head_dim) and w (batch, seq, index_head); of a query t and each key s up to it, of
// the same document, the score is
//     I(t, s) = sum over heads j of w(t, j) max(0, q(t, j) . k(s)),
// and chosen (batch, seq, chosen) are the numbers of the `top_k` keys of highest score, in fp32
// (whole up to 2^24), ascending, -1 behind them where there are fewer; of equal scores the first
// keys. Where keys are entries of `rate` tokens, (batch, entry, head_dim), query t scores the first
// (t + 1) / rate of them (models/op_pool.h). Factors that all scores of a query share do not change
// a choice and are left out.
//
// A choice has no derivative: nothing in front of it has a gradient, and the parameters that it
// alone reads get zeros, as a load-balancing bias does. Published models train them by a loss of
// their own, to which that of the model says nothing.

// Queries may be split, keys are whole, and so are the indexer's heads: their scores would have to
// be added up for all pairs.
enum split op_choose_split(const struct block *block, const struct op *op, enum dim dim);
// Products, maxima and the weighted sum, of all pairs of a query and a key that it may choose.
double op_choose_flop(const struct block *block, const struct op *op,
                      const int64_t size[DIM_COUNT]);
// Forward flops of one sequence.
double op_choose_model_flop(const struct block *block, const struct op *op, int64_t seq);
