#pragma once
#include "planner/compose.h"
#include "planner/ranking.h"

// Walks a space and keeps the best plans that fit. Pruned: groups wait in a queue by a lower bound
// on their time, at first one that needs no lowering; the best is looked at more closely, which
// raises its bound, and is priced in the end; when the lowest bound passes the worst plan kept, all
// is done. Exhaustive: every plan is priced. Both keep the same plans. Of the plans of one tail
// (ways to recompute, even or balanced stages) only the best is kept.

// A larger micro-batch takes no more time a sequence than a smaller one, but for the last wave of
// its kernels, which may be emptier: no less than this share of it bounds the smaller ones of a
// family (tests/test_search.c).
static const double SCAN_LAST_WAVE_RATIO = 0.9;

struct scan_request {
    const struct search_request *search;
    struct space *space;
    struct space_graphs graphs;
    struct memo *memo;
    int keep;           // plans
    bool ignore_limit;  // keep what does not fit, too
    enum objective objective;
    struct refine_bases *bases;  // tails that classes may make faster are noted there; NULL: not
};

struct scan_result {
    struct ranking ranking;
    double considered_count, priced_count, unfit_count;
    double bound_s;  // no plan that was looked at and fits is faster; of objective memory: none
};

struct scan_result scan_space(struct arena *arena, struct arena *scratch,
                              const struct scan_request *request);

// The best plan of a request by the closed form, alone: no events, no remedies. False when no plan
// is legal or none fits. The plan lives in `arena`, all else is given back.
bool scan_best(struct arena *arena, const struct search_request *request, struct candidate *best);
// A copy of the plan whose texts and arrays live in `arena`.
struct candidate candidate_copy(struct arena *arena, const struct candidate *plan);
