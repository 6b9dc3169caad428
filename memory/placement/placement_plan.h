#pragma once
#include "cost_models/step.h"
#include "memory/placement/placement.h"

// The placement of what one rank of a stage holds over a step of a plan. Parameters, gradients and
// optimizer states are in chunks in the order of their use, each a slice of what ZeRO leaves of it;
// a block's are cut evenly into as many as its gradients fill of plan_chunk_of's size. What a block
// saves for backward is a chunk for each micro-batch. Moments: the blocks of each slot of the
// schedule, each as many as its chunks, which its operators use in turn (backward from the last
// one, where it is recomputed once more from the first), then the updates chunk by chunk in the
// order in which backward makes gradients, or, where no norm is waited for, each behind the last
// backward of its block. Seconds are those that the plan is priced with. Beside chunks the device
// holds the rest of what memory_of_stage counts: working memory, buffers and the reserve.
//
// Homes: parameters, gradients, activations and then states are in the host's memory as long as
// there is room, in the rank's share of it; what is left is on its share of NVMe. Of a kind of
// which a part has room, chunks of either home stand between each other, as even as their sizes
// allow.
//
// Where a step has many moments the placement is that of a step of fewer micro-batches, and chunks
// are larger.

struct placement_question {
    const struct program *program;
    const struct price_context *context;
    int stage;
    int64_t device_bytes;
    bool updates_on_host;  // where the states then stay
    bool updates_ahead;    // behind a norm: those first that the next step uses first, which need
                           // not wait for the others, but for gradients that were made last
    int micro_batches;  // of the step, no more than this where the schedule runs so few; of up to
                        // 3 the chunks are the same. 0: as many as few moments allow
    int interval_most;  // chunks are larger than is best where there were more intervals; 0: 2500
};

struct placed_plan {
    struct placement_problem problem;
    int64_t kind_bytes[PLACED_KIND_COUNT];  // of all chunks; of activations of the micro-batches
                                            // that are alive together at the most
    int64_t home_bytes[TIER_COUNT];         // the device's: none
    int64_t all_bytes;                      // of kind_bytes
    int64_t work_bytes;
    int micro_batches;  // of the step that is placed
};
// The homes of chunks, of which kind_bytes are summed up; fills home_bytes. ERR_USAGE where host
// and NVMe together have too little room.
MUST_CHECK bool placed_homes(struct arena *arena, const struct cluster *cluster,
                             struct placed_chunk *chunks, int chunk_count, struct placed_plan *plan,
                             struct err *err);
// ERR_USAGE as above.
MUST_CHECK bool placed_plan_make(struct arena *arena, const struct placement_question *question,
                                 struct placed_plan *plan, struct err *err);
