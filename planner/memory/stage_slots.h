#pragma once
#include "plan/program.h"

// The tasks of a stage that its graph holds, in the order of the pipeline's schedule. Where a
// schedule runs W right behind B the two are one slot, as autograd runs them.
struct stage_slot {
    enum task_kind kind;
    bool fused;  // TASK_BACKWARD with its weight gradients
    int chunk, micro_batch;
};
struct stage_slots {
    struct stage_slot *slots;
    int count;
    int micro_batches;  // in the slots; fewer than those of the step where the rest repeats them
};

// With as many micro-batches as the schedule's highest moment needs, and the next number that it
// runs, so that a round in its middle is among the slots; one where micro-batches follow each
// other without a pipeline. At most those of the step.
struct stage_slots stage_slots_make(struct arena *arena, const struct program *program, int stage);
// With this many, which must be legal.
struct stage_slots stage_slots_of(struct arena *arena, const struct program *program, int stage,
                                  int micro_batches);
