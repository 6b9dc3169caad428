#pragma once
#include "planner/compose.h"
#include "planner/ranking.h"

// Walks a space and keeps the best plans that fit. Pruned: groups wait in a queue by a lower bound
// on their time, at first one that needs no lowering; the best is looked at more closely, which
// raises its bound (what making room takes comes last), and is priced in the end; when the lowest
// bound passes the worst plan kept, all is done. Exhaustive: every plan is priced. Both keep the
// same plans. Of the plans of one tail (ways to recompute, even or balanced stages) only the best
// is kept.

// A larger micro-batch takes no more time a sequence than a smaller one, but for the last wave of
// its kernels, which may be emptier: no less than this share of it bounds the others of a family,
// the larger ones too where a rank has so many tokens that every kernel runs in many waves. The
// least of 24 times 20 drawn questions was 0.85 (tests/planner/test_bounds.c).
static const double SCAN_LAST_WAVE_RATIO = 0.8, SCAN_TOKENS_MOST = 1 << 15;

struct scan_request {
    const struct search_request *search;
    struct space *space;
    struct space_graphs graphs;
    struct memo *memo;
    int keep;           // plans
    bool ignore_limit;  // keep what does not fit, too
    enum objective objective;
    int looks_most;  // groups that are priced after the first plan that fits; 0: all that may be
                     // faster
    struct refine_bases *bases;  // tails that classes may make faster are noted there; NULL: not
};

struct scan_result {
    struct ranking ranking;
    double considered_count, priced_count, unfit_count;
    double bound_s;  // no plan that was looked at and fits is faster; of objective memory: none
    // What bounds plans that the space does not hold; INFINITY: nothing does below the worst plan
    // that is kept, 0: nobody asked.
    double piped_s;            // any that has a pipeline, however its layers are split
    double pressed_s;          // any that the devices' memory keeps from being faster
    double steady_s;           // any, without what happens once a step
    double silent_s;           // any, without communication
    double other_attention_s;  // and in another attention than the space's
    bool stopped;              // plans were left out because the search was told to stop
};

struct scan_result scan_space(struct arena *arena, struct arena *scratch,
                              const struct scan_request *request);

// The best plan of a request by the closed form, alone: no events, no remedies. False when no plan
// is legal or none fits. The plan lives in `arena`, all else is given back.
bool scan_best(struct arena *arena, const struct search_request *request, struct candidate *best);
// A plan that fits, and a fast one, for words beside an answer: the best of SCAN_GOOD_LOOKS groups
// in the order of their bounds, behind the first that has one.
enum { SCAN_GOOD_LOOKS = 16 };
bool scan_good(struct arena *arena, const struct search_request *request, struct candidate *good);
// A copy of the plan whose texts and arrays live in `arena`.
struct candidate candidate_copy(struct arena *arena, const struct candidate *plan);
