#pragma once
#include "plan/program.h"

// Which stages share parameters. Every stage that holds one of a name keeps it whole, as the first
// of its blocks has it, and all sum its gradient once a step: one tie after the other, in the order
// in which the stages first have them, which is the same for all, so that none waits in a circle.
// On one stage a tie is one buffer, and nothing is summed.

// Whether blocks of the model share parameters.
bool ties_any(const struct graph *graph);
// Fills ties and tie_count of a program that has chunks. Of parameters that are not trained there
// is nothing to sum.
void ties_find(struct arena *arena, struct program *program);
// The number of the tie of this name that the stage shares with others; -1: none, or no name.
int ties_at(const struct program *program, int stage, const char *name);
// Whether the parameter is also of a block.
bool ties_has(const struct block *block, const char *name);
// Refuses meshes (struct parallel, stage_tp, stage_ranks) in which what is tied would lie in two
// layouts. ERR_USAGE.
MUST_CHECK bool ties_check(const struct graph *graph, const struct parallel *parallel,
                           const struct chunk_span *spans, struct err *err);
