#pragma once
#include "plan/layout/rules.h"

// A file that says the layout of a few operators or tensors, or of all, or of none:
//
//   # comment
//   *.mlp.up.weight: ffn/tp      the matrix is split over its ffn by tp
//   layer.attention.out: seq/tp  the operator is
//   head.lm.weight: whole        no rank of tp has only a part of it (whole/tp)
//   layer.mlp.up: hidden/tp on stage 1
//   --tp 4                       a pin: who reads the command line takes those, and here they are
//                                nothing
//
// A pattern with * and ? is matched against the names of operators and tensors, with and without
// the kind of block in front; one of both means the operator. What is said of a parameter holds for
// the operator that reads it, of an activation for the one that makes it. `whole` of an operator:
// all ranks do the same; of a parameter: the operator splits none of its dims, and takes the tokens
// where the ranks have parts of those (sequence parallelism). What is said of a stage goes before
// what is said of all; stages are told apart where they have numbers of ranks.
//
// What is not said is filled in: operators without a matrix (functions, norms, sums) follow those
// who make what they read, else those who read what they make, where all of these have one layout
// that they can have too; all else does what the table of techniques says. Resharding follows as
// everywhere.

struct annotations {
    const struct layout_rule *rules;
    int count;
};

// Against the operators of these graphs of one model: with attention fused, and not. ERR_INPUT
// where a line cannot be read; ERR_USAGE where it matches nothing, is not legal for what it
// matches, is of a stage that is none of the `stage_count` that can be told apart (0: none can), or
// contradicts another: both are named. Lives in `arena`.
MUST_CHECK bool annotations_read(struct arena *arena, const char *path, const char *text,
                                 const struct graph *const *graphs, int graph_count,
                                 int stage_count, struct annotations *annotations, struct err *err);
// Fills in, for a search that has rules of some operators of a graph, those of the operators that
// follow; the rules given come first. In `arena`.
struct annotations annotations_fill(struct arena *arena, const struct graph *graph,
                                    const struct annotations *given);
