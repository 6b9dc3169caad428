#pragma once
#include "models/graph.h"

// Work of attention in pairs of a query and a key. Documents that share a sequence and are masked
// see no others: of the pairs that the operator counts (op_attended_pairs) a share is left.
//
// Documents are told by one number, the tokens that the document of a token has within its
// sequence, in the mean over tokens. Where nothing else limits what a query sees, that number says
// all: a document of d tokens has d * d / 2 pairs, d / 2 for each of its tokens. With a window it
// stands for documents of one length each, and of chunks for such that begin anywhere in them.

// Forward flops of one sequence in the products of queries with keys and of probabilities with
// values, which may be of another width; 0 of other operators.
double attended_flop(const struct block *block, const struct op *op, int64_t seq);

// Of the pairs among `keys` tokens: those within documents. 1 where they are no shorter, for
// operators that look ahead, and for `tokens` 0.
double attended_share(const struct op *op, int64_t keys, double tokens);

// Of graph_model_flop: what documents of so many tokens do not see.
double attended_masked_flop(const struct graph *graph, int64_t seq, double tokens);
