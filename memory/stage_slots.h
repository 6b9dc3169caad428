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

// How many micro-batches it takes to have as much alive at once and as many in flight as in the
// whole step, and the next number that the schedule runs, so that a round from its middle is among
// the slots; without a pipeline, where micro-batches follow each other, one, or all where weights
// stay between them.
int stage_slots_cut(struct arena *arena, const struct program *program, int stage);
// Whether the plan's schedule runs so many.
bool stage_slots_is_legal(const struct program *program, int micro_batches);
// With all micro-batches of the step where that are few instructions, else cut.
struct stage_slots stage_slots_make(struct arena *arena, const struct program *program, int stage);
// With this many, which must be legal.
struct stage_slots stage_slots_of(struct arena *arena, const struct program *program, int stage,
                                  int micro_batches);
