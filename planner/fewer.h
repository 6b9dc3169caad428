#pragma once
#include "planner/search.h"

// A plan for the ranks that are left of one whose others are gone for good. As many of them work as
// have a plan that fits, and of the plan before as many choices stay as can: all but its copies,
// else what says how memory is used, else only what the search does not choose by itself.

enum fewer_kept { FEWER_KEPT_ALL, FEWER_KEPT_MEMORY, FEWER_KEPT_FIXED, FEWER_KEPT_COUNT };

struct fewer_answer {
    struct search_request request;  // of the first ranks of the cluster, with the pins that held
    struct search_result result;    // of that; at least one plan
    enum fewer_kept kept;
};

// What stayed, in words: "all but its copies".
const char *fewer_kept_text(enum fewer_kept kept);

// What holds the choices of `was` that stay.
struct pins fewer_pins(const struct parallel *was, enum fewer_kept kept);

// `request` is of the whole cluster, its pins are not looked at; `was` is the plan before, `ranks`
// is 1 to the ranks of the cluster. The answer lives in `arena`. ERR_USAGE where no plan fits on
// any of these numbers of ranks.
MUST_CHECK bool fewer_search(struct arena *arena, const struct search_request *request,
                             const struct parallel *was, int ranks, struct fewer_answer *answer,
                             struct err *err);
