#pragma once
#include "planner/search.h"

// Plans in which branches of the model work side by side, on stages of their own (plan/branches.h).
// The best plans of the search, and of what it finds with a pipeline, are split so with each number
// of stages in front of the first branch, played whole, and the best few changed: a layer at a
// time, in the stages of each branch, in micro-batch and schedule, as long as that helps.
// What is pinned is wanted; else, for our own executor and the shortest step, such a plan is taken
// where it is faster than the best chain of stages; on unlike devices (planner/uneven.h) than the
// best of unlike stages and replicas. Nothing is proven of the answer then.

struct branches_answer {
    bool is_asked;
    bool has_other;  // the best plan of the other kind than the one that was chosen fits
    double other_s;
    struct parallel other;
    int played_count;
};

// Makes a chain of stages one of branches, in a schedule that runs them and with layers that nobody
// pinned left open. False: pins allow none.
MUST_CHECK bool branches_put(const struct pins *pins, struct parallel *parallel);
// Layers for so many of the stages in front of the first branch, so many for the branch alone, and
// the others behind (of none between: for all behind), by the ranks that each has; NULL: as many.
// In `arena`.
const int *branches_layers(struct arena *arena, const struct graph *graph, int stages, int in_front,
                           int between, const int *ranks);
// Whether branches that are asked for can be: the stack runs them, the model has some.
MUST_CHECK bool branches_check_pinned(const struct search_request *request, struct err *err);
// Whether the model has branches that the search may split by.
bool branches_are_asked(const struct search_request *request);
// As search_plans. Lives in `arena`.
MUST_CHECK bool branches_search(struct arena *arena, const struct search_request *request,
                                struct search_result *result, struct branches_answer *answer,
                                struct err *err);
