#pragma once
#include "plan/lower/fusion.h"
#include "plan/passes.h"
#include "simulator/evaluate.h"

// Which pass gained what: the plan evaluated again with each of its passes off alone, and from none
// of them to all, one more at a time. Every row is a whole simulated step of the same plan, so that
// a gain is a difference of two predictions. Gains of single passes do not add up to the whole:
// what two passes hide together neither gains alone, and hiding without streams gains nothing.

struct ablation_row {
    enum pass pass;   // that was taken away or added; of the row of none it says nothing
    unsigned passes;  // in force
    double step_s;
    double gained_s;         // by `pass`: against the plan, or against the row before; may be < 0
    int64_t reserved_bytes;  // worst rank
    bool fits;
};

struct ablation {
    double step_s;  // of the plan as it is
    int64_t reserved_bytes;
    bool fits;
    struct ablation_row without[PASS_COUNT];  // each pass of the plan
    int without_count;
    // none, then with one more at a time in the order of ablation.c
    struct ablation_row waterfall[PASS_COUNT + 1];
    int waterfall_count;
    struct fusion_counts fusion;  // of one micro-batch through all stages, one rank of each
};

// As `evaluate`, whose errors it hands on; trace and unfolding of the request do not matter.
// Nothing is kept in `arena`.
MUST_CHECK bool ablate(struct arena *arena, struct arena *scratch,
                       const struct evaluation_request *request, struct ablation *ablation,
                       struct err *err);
