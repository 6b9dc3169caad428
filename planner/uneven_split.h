#pragma once
#include "planner/index.h"
#include "planner/search.h"
#include "simulator/evaluate.h"

// One plan split by the speed of the devices under it, and changed step by step.

struct uneven_split {
    struct arena *arena;  // of the lists of numbers
    const struct search_request *request;
    int played_count;
    struct index played;  // known plans, which are not played again
};

// A plan as the events play it, each rank on its own device. False: it is not legal or does not
// fit.
bool uneven_play(struct uneven_split *split, const struct parallel *parallel,
                 struct candidate *played);

// The same; what does not fit gives layers to stages with room left until it does.
bool uneven_fit(struct uneven_split *split, const struct parallel *parallel,
                struct candidate *played);

// Gives each replica micro-batches, each stage layers, by how fast the devices are; what is pinned
// stays. False where they cannot differ, or only come out as they were.
bool uneven_batches(struct uneven_split *split, struct parallel *parallel);
bool uneven_layers(struct uneven_split *split, struct parallel *parallel);

// Moves a micro-batch or a layer at a time to where it is done soonest, while steps get shorter.
void uneven_climb(struct uneven_split *split, struct candidate *best);
