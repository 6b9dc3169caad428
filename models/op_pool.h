#pragma once
#include "models/op.h"

// The rules of OP_POOL, OP_POOLED and their backward, for the table of models/op.c.
//
// OP_POOL makes an entry of each `rate` tokens (DeepSeek-V4, as transformers' deepseek_v4 has it).
// Inputs x and gate, (batch, seq, rank), and bias (tap, rank), a row for each place in an entry;
// out (batch, entry, head_dim). In each channel an entry is the sum of x over its tokens by the
// softmax of gate + bias over these. Where rank is twice head_dim entries overlap: of the tokens
// in front of its own, those of the entry before, an entry reads the first half of the channels,
// of its own the second half, in one softmax over both. Tokens behind the last whole entry are
// in none.
//
// OP_POOLED is attention to what is near and to entries of what is far, in one softmax: inputs q
// (batch, seq, head, head_dim), x (batch, seq, kv_head, head_dim), which are keys and values at
// once of one head, sink (head), a number that joins the softmax, entries (batch, entry, head_dim),
// keys and values as well(, chosen (batch, seq, chosen), the entries of each query); out of q's
// shape, and log-sum-exp. A query sees of tokens the last `window` up to itself, of entries those
// whose last token is no further than itself: query t sees (t + 1) / rate of them.

// Pooling wants whole sequences; it works on each channel by itself, but those of one half of an
// overlap belong to those of the other.
enum split op_pool_split(const struct block *block, const struct op *op, enum dim dim);
// Exponential, product and sums of each number that is read; backward makes them again.
double op_pool_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);

// Queries and heads may be split; what they attend to is whole.
enum split op_pooled_split(const struct block *block, const struct op *op, enum dim dim);
double op_pooled_flop(const struct block *block, const struct op *op,
                      const int64_t size[DIM_COUNT]);
// Forward flops of one sequence.
double op_pooled_model_flop(const struct block *block, const struct op *op, int64_t seq);
// Pairs of a query and an entry of one head.
double op_entry_pairs(const struct op *op, int64_t queries, int64_t entries);
