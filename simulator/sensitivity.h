#pragma once
#include "cost_models/constants.h"
#include "simulator/evaluate.h"

// How the step of a plan hangs on every constant of its device, stack and fabrics (costmodel study,
// section 6.6). The plan's choices stay as they are; each changed step is priced and played event
// by event as the plan's own is, never linearised. Where the file's reader would not accept the
// changed value, the nearest that it accepts is taken.

// One set of constants that can be changed, for plans of one request.
struct bench {
    struct evaluation_request request;  // with copies of the constants; its `parallel` is unused
    struct constant_list constants;     // who sets a value through it sets it back
};

// Lives in `arena`.
struct bench *bench_new(struct arena *arena, const struct evaluation_request *request);

// A plan on a bench, and which of the constants it hangs on at all.
struct bench_plan {
    const struct bench *bench;
    const struct program *program;
    const struct step_price *price;  // at the constants' own values
    double step_s;
    bool *counts;  // [constant]; false: no price changes at +-10 %, of it alone or of all of its
                   // owner's, so that nothing needs to be played
};
struct bench_plan bench_plan_new(struct arena *arena, struct arena *scratch,
                                 const struct bench *bench, const struct program *program);
// The step with one constant changed.
double bench_step_s(const struct bench_plan *plan, struct arena *scratch, int constant,
                    double ratio);

struct sensitivity_row {
    const struct constant *constant;
    // d ln step / d ln constant, by central differences at +-1 %. Where the step jumps in between
    // (a bucket more, another algorithm) it says little, and +-10 % say more.
    double elasticity;
    bool can_grow;          // false: the constant is as large as its reader accepts
    double more_s, less_s;  // what +10 % and -10 % add to the step
};

// Rows with a smaller magnitude, whose +-10 % do not change the step by that share, are left out.
static const double SENSITIVITY_LEAST = 1e-3;

struct sensitivity {
    double step_s;
    struct sensitivity_row *rows;  // by falling magnitude of elasticity, then in the list's order
    int count;
    int idle_count;          // constants that are left out,
    double idle_elasticity;  // and the sum of their magnitudes
};

// Lives in `arena`.
struct sensitivity sensitivity_make(struct arena *arena, struct arena *scratch,
                                    const struct evaluation_request *request,
                                    const struct evaluation *evaluation);
