#pragma once
#include "models/graph.h"
#include "plan/stages.h"

// Branches of a model on stages of their own, side by side (struct parallel, branches). In a chain
// a stage hands on what others made and it does not read. Here it does not get that: a stage all of
// whose blocks only hand it on (struct graph, alone) works without, and what was made goes to the
// next stage that reads it. So a stage whose blocks read nothing else waits for nobody, and a stage
// where branches join gets from several; what it hands on goes to one. With one stage behind the
// other, a way to the last stage is as long as its own branch, and 1F1B holds as many micro-batches
// as that says.
//
// Stages stand in the order of the blocks. A stage that reads from a stage whose other outputs it
// would have to leave out is not taken for one of a branch.

// What is in front of a branch, the branch, and what joins it: the last stage reads of all.
enum { BRANCHES_STAGES = 3 };

// What of it can be. ERR_USAGE.
MUST_CHECK bool branches_check(const struct graph *graph, const struct parallel *parallel,
                               struct err *err);
// Says why a model without branches, of this name, has none; false.
bool branches_refuse_chain(const struct graph *graph, const char *name, struct err *err);
// The tree of a split; NULL where every stage hands on to the one behind it. Lives in `arena`.
const struct stage_tree *branches_tree(struct arena *arena, const struct graph *graph,
                                       const struct chunk_span *spans, int stage_count);
// Where branches begin, by positions in the sequence; returns how many, at most `room`.
int branches_begin(const struct graph *graph, int *positions, int room);
// The layers of each stage where nothing is pinned: each branch, and the one that the others join,
// has stages for its share of the layers, one at least, and those evenly. False: there are fewer
// stages than branches.
bool branches_split(const struct graph *graph, int stage_count, int *stage_layers);
