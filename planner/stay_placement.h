#pragma once
#include "memory/plan_schedule.h"

// The placement by the moment of a stage's blocks that planner/plan_stays.h asks for: weights that
// blocks fetch, and gradients that leave, as chunks (memory/placement/placement.h).

// A block that works, by position.
struct stay_block {
    int64_t bytes;           // that it fetches
    int64_t gradient_bytes;  // that leave and come back
    bool is_layer, may_stay;
    int64_t work_bytes[2];  // beside them, while it works forward and backward
};

// How many stay from forward to backward, and between micro-batches, in all of them.
struct stay_counts {
    int turn, between;
};

struct stay_stage {
    struct arena *arena;
    const struct evaluation_request *request;  // of the plan with none that stay
    const struct program *program;             // of it
    struct stay_block *blocks;
    int block_count;
    int64_t rooms_bytes;  // of the device, that gradients pass through
};

// Counts to begin with, and what no placement beside the work of an order moves less than.
struct placed_stays {
    struct stay_counts counts;
    double bound_bytes;
};

// `order`: of the stage, beside whose work it is; `room_bytes`: for it and what stays, and with
// `gradients` their rooms beside them. With `gradients` those that leave have a say as well.
struct placed_stays stay_placement(struct stay_stage *stage, const struct plan_stage *order,
                                   int64_t room_bytes, bool gradients);
