#pragma once
#include "planner/strategy/model.h"

// A choice of the whole model with what hangs on it, kept up to date move by move.
struct choice_state {
    const struct choice_model *model;
    int *choice;        // [node_count]
    double *used;       // [point_count]: above what is used whatever is chosen
    double cost;        // without what is forbidden
    int64_t forbidden;  // costs of nodes and edges that are forbidden
    double excess;      // sum over points of what is used above their room
    int64_t work;       // entries looked at since the state was made
};

struct choice_state *state_new(struct arena *arena, const struct choice_model *model);
// Takes a choice over and counts all anew.
void state_set(struct choice_state *state, const int *choice);

// Changes `count` nodes to `chosen`, which gets what they had before, so that the same call undoes
// it. `point` (may be NULL) gets the point that is exceeded most among those that are used more, or
// -1.
void state_move(struct choice_state *state, const int *nodes, int count, int *chosen, int *point);
