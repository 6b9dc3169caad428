#pragma once
#include "memory/plan_schedule.h"

// Chooses again what a plan keeps, recomputes and moves, so that its planned arena fits: the
// integer program answers from what the memory model counts, each stage of its answer is ordered
// and laid out, and what the arena came to beside what was counted goes back into the program, for
// a few rounds. Of the answers that fit the fastest is taken.

enum { PLAN_KEEP_ROUNDS = 4 };

struct plan_keep_request {
    const struct evaluation_request *request;  // of the plan as it is
    const struct memory_options *options;      // `capacity` of the arena of every stage; 0: what
                                               // the device has beside all else
    bool may_recompute, may_move;              // else as the plan has it
};

struct plan_kept {
    struct evaluation_request request;  // of the plan that was chosen
    struct evaluation *evaluation;      // with its schedule applied
    struct plan_stages stages;
    struct plan_schedule *schedule;
    bool fits;
    int64_t lack_bytes;  // does not fit: of the fullest stage, or of its host
    int round_count;
    double kept_s;           // a step with everything kept that may be recomputed or moved
    int64_t reserved_bytes;  // and what the memory model says that it reserves
};

// ERR_USAGE where the plan recomputes some layers or moves activations and that may not be chosen;
// the errors of evaluate and plan_schedule_make. Lives in `arena`.
MUST_CHECK bool plan_keep(struct arena *arena, struct arena *scratch,
                          const struct plan_keep_request *request, struct plan_kept *kept,
                          struct err *err);
