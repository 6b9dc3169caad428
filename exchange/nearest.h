#pragma once
#include "exchange/target.h"
#include "planner/search.h"

// The nearest plan that a target can run: what it cannot express is left to a search, the rest is
// kept; where that leaves no plan that fits, nothing is kept.

struct nearest_request {
    const struct exchange_target *target;
    struct search_request search;  // of the target's stack; the pins are those of the command line
    const struct parallel *near;   // NULL: no plan to be near to, the best is wanted
};

struct nearest_answer {
    struct search_result result;
    struct candidate *best;  // that the target can run; NULL: none fits
    // Of those that it can run the one that misses by least, where none fits, with the remedies of
    // `result`; NULL: it can run none, whatever the memory.
    const struct candidate *closest;
};

// False and a set `err` where a search cannot be made at all.
MUST_CHECK bool nearest_find(struct arena *arena, const struct nearest_request *request,
                             struct nearest_answer *answer, struct err *err);

// search_plans of what the target can run: what it cannot is left out of the best, and where
// nothing is left forbidden and searched again.
MUST_CHECK bool nearest_search(struct arena *arena, const struct exchange_target *target,
                               const struct search_request *request, struct search_result *result,
                               struct err *err);

// Takes from the stack of a search what the target cannot be told of, whatever the plan: axes,
// overlap, recompute, stages of ZeRO, so that no plan and no remedy is looked for there. `left_out`
// names the axes, "ep, pp". False: one of them is pinned.
MUST_CHECK bool target_narrow(struct arena *arena, const struct exchange_target *target,
                              struct search_request *request, const char **left_out,
                              struct err *err);
// What of a plan the target cannot express; `settings` and `facts` are filled beside, and may be
// wanted for a file.
MUST_CHECK bool target_judge(struct arena *arena, const struct exchange_target *target,
                             const struct facts_request *request, const struct facts **facts,
                             struct settings *settings, struct refusals *refusals, struct err *err);
bool refusals_hold(const struct refusals *refusals, const char *fact);
// "schedule zb-h1 and recompute norm"
const char *refusals_text(struct arena *arena, const struct refusals *refusals);
