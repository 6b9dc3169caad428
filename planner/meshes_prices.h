#pragma once
#include "planner/rank_split.h"
#include "planner/search.h"

// What a stage may be, priced: for each rank at which one can begin the numbers of ranks that it
// may have, and the tp of each. A stage has a part of a node (a power of two, a divisor of the
// node's, what such a stage leaves of it, or the rest), whole nodes, or what is left of the nodes
// of its kind; or the ranks that are pinned. Seconds and bytes are those of a pipeline of like
// stages that is lowered and priced once a shape, so that they are exact in what layers have in
// common and leave out what stages of other shapes send each other.

struct mesh_shapes;  // those priced of a way so far

// `way` says all else: sp, cp, ZeRO, what is recomputed. In `arena`.
struct mesh_shapes *mesh_shapes_new(struct arena *arena, const struct search_request *request,
                                    const struct pins *asked, const struct parallel *way);
// Of stages that take so many sequences at a time, all together. NULL: no stage can. In `arena`.
const struct rank_places *mesh_shapes_places(struct arena *arena, struct mesh_shapes *shapes,
                                             int64_t sequences);
// Blocks of the model that stages share out.
int mesh_shapes_layers(const struct mesh_shapes *shapes);
// Whether the first and the last stage have to be alike, which share a table.
bool mesh_shapes_are_tied(const struct mesh_shapes *shapes);
