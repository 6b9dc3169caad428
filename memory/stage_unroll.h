#pragma once
#include "memory/stage_slots.h"

// The slots of a whole step out of those of fewer micro-batches: rounds from their middle again and
// again.

struct stage_unroll {
    struct stage_slots slots;
    const int *like;          // by slot: the one of the cut step that does the same
    int at;                   // slot in front of which a round is repeated
    int round_micro_batches;  // of it; 0: none is repeated
};

// False where the slots of `cut` do not say those of the step, or what a slot has beside it is
// another's in its next round.
MUST_CHECK bool stage_unroll(struct arena *arena, const struct program *program, int stage,
                             const struct stage_slots *cut, struct stage_unroll *unroll);
