#pragma once
#include "planner/strategy/model.h"

// A small model as an integer program, solved by GLPK: a binary column for every choice, one for
// every pair of choices of an edge, tied to both ends. GLPK works in doubles: its bound is taken
// down by a millionth of what an answer costs over the least of every node and edge, and by a
// hundred millionth of the largest such cost, so that only differences below half a million are
// proven to the unit. What costs more than an answer that was found is left out, and what is left
// solved again at a scale of its own.

enum { EXACT_COLUMNS_MOST = 600 };

struct exact {
    const int *choice;   // [node_count]; NULL: none was found
    int64_t bound;       // where there is a choice
    bool is_impossible;  // proven
    bool is_optimal;     // as GLPK counts
};

// Whether it is small enough to be tried.
bool exact_fits(const struct choice_model *model);
struct exact exact_solve(struct arena *arena, const struct choice_model *model);
