#pragma once
#include "core/arena.h"
#include "models/graph.h"

// The attention pass: finds, in any forward block, the chain that materialises the scores and puts
// the fused operator (Dao et al. 2022) in its place:
//
//   contract(q, expand k) [-> scale]* [-> softcap] [-> alibi] -> softmax(, sink) [-> dropout]
//       -> contract(., expand v)
//
// with q (batch, seq, head, .), scores (batch, head, seq, kv_seq) and k, v as they were before
// OP_EXPAND renamed (and repeated) them. The operator inherits the factor of the scores, soft cap,
// alibi, sink, dropout, causal mask, window and recompute class; its second output, the log-sum-exp
// of each row, is new. A chain is left alone where anything between its ends is read elsewhere or
// leaves the block, or where its steps stand in another order: that would change the result.

// Chains replaced. The block gets arrays of its own in `arena`, ids of tensors and ops move up.
int match_attention(struct arena *arena, struct block *block);
// The same in every block of a graph.
int match_attention_graph(struct arena *arena, struct graph *graph);
