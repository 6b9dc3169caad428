#pragma once
#include "memory/milp.h"
#include "plan/parallel.h"

// Keep, recompute or offload: for each class of activations of a stage, in how many of its layers
// it is kept on the device, recomputed in backward or moved to the host or to NVMe, so that memory
// fits and the step grows least. An integer program: counts of layers a class and action, one
// choice of what is recomputed together; rows for device memory at the end of forward and at the
// boundary of each layer, host and NVMe capacity, and the links (both directions), whose traffic
// hides behind compute up to its window; what does not fit the window is added time. Copies of a
// layer hide behind the compute of one layer each way, and two layers are in transit, as plans are
// priced (plan/offload.h). The first N layers of each stage: where a stage has fewer, all of them.
// Memory is kept 1e-5 below its limits, far above what GLPK may miss them by.

struct keep_class {
    int64_t bytes;      // saved by one layer for one micro-batch
    unsigned op_class;  // enum op_class of what made it
};

// One way to recompute: what a layer then does not save, and what backward costs more.
struct keep_recompute {
    enum recompute recompute;
    unsigned classes;
    double seconds;                          // a layer and micro-batch
    double window_s;                         // of them, compute that copies hide behind
    int64_t saved_bytes[OFFLOAD_CLASS_MAX];  // still saved, by enum op_class
    int64_t transient_bytes;  // working memory of a layer that is recomputed, above that of one
                              // that is not
};

struct keep_stage {
    int layer_count;
    double in_flight;              // micro-batches whose activations are alive at the worst moment
    int64_t other_bytes;           // all else on the device at that moment
    double forward_s, backward_s;  // compute of one layer and micro-batch: the windows of copies
};

struct keep_problem {
    const struct keep_class *classes;
    int class_count;
    const struct keep_recompute *recomputes;  // recomputes[0]: nothing recomputed
    int recompute_count;
    const struct keep_stage *stages;  // all stages take the same choice, as the plan does
    int stage_count;
    int micro_batch_count;
    int64_t device_bytes;
    // A rank's share of its host's links and memory. Bandwidth 0: that tier is not there.
    double host_bytes_per_s, nvme_bytes_per_s;  // each direction
    int64_t host_bytes, nvme_bytes;
    unsigned tiers;  // 1 << enum tier that may be used; TIER_DEVICE always
};

struct keep_result {
    enum milp_status status;
    int recompute;                              // index
    int recompute_layers;                       // the first N of each stage
    int layers[TIER_COUNT][OFFLOAD_CLASS_MAX];  // moved, the first N of each stage, by op_class
    double added_s;                             // a micro-batch through the slowest stage
    double bound_s;
    int64_t moved_bytes;   // down, a micro-batch and the stage that moves most
    int64_t static_bytes;  // of the same when all that no recompute spares is moved, needed or not
    int64_t shortfall_bytes;  // infeasible: what the best choice still lacks
};

struct keep_result keep_solve(struct arena *arena, const struct keep_problem *problem,
                              const struct milp_options *options);
// Where the moved are; TIER_DEVICE: nothing is moved.
enum tier keep_tier(const struct keep_result *result);
// On the device of a stage when a choice is made.
double keep_device_bytes(const struct keep_problem *problem, const struct keep_result *result,
                         int stage);

// Chunks: tensors moved together in pieces of one size, so that a latency is paid once a piece and
// the memory of any piece can hold any other. The rule of Gemini (Colossal-AI,
// colossalai/zero/gemini/chunk/search_utils.py, read 2026-11): of the multiples of `step` from the
// first that holds every tensor and is no less than `low`, up to `range` above it, that which
// wastes least when tensors are put into chunks in order of use without being cut; tensors more
// than three standard deviations above the mean are left out. Tensors that come to less than `low`
// in all are one chunk. Of equally good sizes the smallest. `wasted_bytes` may be NULL.
int64_t keep_chunk_bytes(const int64_t *tensor_bytes, int tensor_count, int64_t low, int64_t range,
                         int64_t step, int64_t *wasted_bytes);
