#pragma once
#include "planner/plan_keep.h"

// Which parameters that leave the device stay there between two of their uses (plan/offload.h, turn
// and between), and of how many layers gradients do, so that the planned arena fits and a step
// is the shortest, of equal ones the one that moves the fewest bytes. One stage alone.
//
// A placement by the moment (memory/placement/placement.h): chunks are the weights that a block
// fetches, moments its forward and backward in each micro-batch and the update on the host; beside
// chunks the device holds at a moment what the plan's own arena does, ordered as it is without any
// that stay. What is kept is counted: of intervals that lie in one another, as those around the
// turn and those around the end of a micro-batch do, as many of the shortest fit as of any where
// blocks are as large. Then the arena is ordered and laid out anew with as many, one less where it
// does not fit and one more while it does, a few rounds.
//
// Gradients that leave (gradients:N) are chunks as well, at the moments of backward. What stays of
// them stays from one micro-batch to the next, whole turns of the circle that are all as long, so
// that of how many layers is all that there is to choose; and beside the arena, so that each order
// keeps of them what it leaves room for. Those of what is no layer come back first.

enum { PLAN_STAYS_ROUNDS = 12 };

struct plan_stays {
    struct plan_kept kept;  // kept_s: a step that waits for no copies; reserved_bytes: with none
                            // that stay
    double before_s;        // a step with none that stay
    // A step: parameters that are fetched, gradients that go down and come back for another
    // micro-batch; and with none that stay.
    int64_t moved_bytes, before_bytes;
    bool has_gradients;  // some of them leave and may stay
    double bound_bytes;  // no placement beside the work of the chosen order moves less; 0: not
                         // known, of steps of many micro-batches
};

// ERR_USAGE where the plan offloads neither or may not keep any; the errors of evaluate and
// plan_schedule_make. `capacity` of the options is of the arena; 0: what the device has beside all
// else. Lives in `arena`.
MUST_CHECK bool plan_stays_find(struct arena *arena, struct arena *scratch,
                                const struct evaluation_request *request,
                                const struct memory_options *options, struct plan_stays *stays,
                                struct err *err);

// What a rank fetches of parameters in a step.
int64_t plan_stays_fetched_bytes(const struct program *program);
