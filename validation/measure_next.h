#pragma once
#include "planner/search.h"

// What to measure before choosing: which micro-benchmarks most lower what the choice may cost.
//
// Constants are not known exactly: each term of fit_terms.h has a spread. Of the plans that a
// search kept, ln step is taken to be linear in the terms; terms are drawn, independently and
// normal. The regret of a choice is how much longer the chosen plan takes than the one that is then
// fastest, its expectation the mean over draws. Who has measured some terms chooses the plan that
// these put first (the others at their expected values), so that measuring never raises the
// expected regret but by the noise of the draws. A micro-benchmark is not training: MEASURE_LEFT of
// a term's spread remains (what fit_terms.c leaves of measured priors). Benchmarks are taken one
// after the other, each time that which leaves the least regret; where none lowers it, that which
// leaves the step known best.

enum measure_kind {
    MEASURE_PRODUCTS,
    MEASURE_ATTENTION,
    MEASURE_MEMORY,
    MEASURE_LAUNCHES,
    MEASURE_NODE_LINKS,
    MEASURE_NETWORK,
    MEASURE_EXPERTS,
    MEASURE_OVERLAP,
    MEASURE_KIND_COUNT
};

#define MEASURE_LEFT 0.3

struct measure_row {
    const char *name;     // "products"
    const char *what;     // in a few words
    double minutes;       // about, with starting it
    bool on_two_nodes;    // else one node is enough
    bool needs_software;  // a few layers with the software that trains, not a script
};
const struct measure_row *measure_row(enum measure_kind kind);

struct measure_step {
    enum measure_kind kind;
    bool lowers_regret;   // else it only narrows the step
    double regret_ratio;  // expected, with this and all before it measured
    double spread_ratio;  // of the step of the plan that is first: standard deviation of its log
};

struct measure_next {
    int plan_count;
    double regret_ratio, spread_ratio;  // with nothing measured
    struct measure_step steps[MEASURE_KIND_COUNT];
    int step_count;  // as many as were wanted, or until nothing is left to gain
};

enum { MEASURE_DRAWS = 4000 };

// ERR_USAGE on a cluster of several devices. Lives in `arena`; equal seeds give equal answers.
MUST_CHECK bool measure_next_make(struct arena *arena, const struct search_request *request,
                                  const struct search_result *result, int wanted, uint64_t seed,
                                  struct measure_next *next, struct err *err);

// What has to be measured, from ln step of the plans and their slopes alone: slope[plan][term],
// kind[term] (MEASURE_KIND_COUNT: nothing measures it). What measure_next_make calls.
void measure_choose(struct arena *arena, const double *ln_s, int plan_count, const double *slope,
                    const enum measure_kind *kind, int term_count, int wanted, uint64_t seed,
                    struct measure_next *next);
