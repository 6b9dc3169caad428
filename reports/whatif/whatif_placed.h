#pragma once
#include "core/json_write.h"
#include "reports/whatif/whatif_sizes.h"

// The largest model with all of its training state off the device: parameters, gradients, optimizer
// states and activations, chunk by chunk, as memory/placement places them with updates on the host.
// What the device must hold is what its largest moment needs; the rest is in the hosts' memory,
// then on their drives. The layout is that of the least memory without a pipeline, whose stages
// would wait for each other, and of micro-batches of 1, 2, 4, .. sequences the fastest; one of 1
// says whether a size fits.
//
// The sizes between are asked too, by doubling: what a larger model costs in speed. Sensible: the
// largest that computes at no less than half of the best rate of any of the sizes.

struct placed_size {
    const struct model_config *model;
    int64_t steps;  // of model_scale_step
    double parameter_count;
    const char *layout;
    int64_t home_bytes[TIER_COUNT];  // of one rank
    double step_s, compute_s;
    double busiest_s;  // no order of the copies takes less
    double tokens_per_s, flop_per_s_per_gpu;
};

enum { PLACED_SIZES_MOST = 48 };
struct placed_sizes {
    struct placed_size sizes[PLACED_SIZES_MOST];  // ascending
    int count;
    int largest[CAPACITY_COUNT];  // index with the hosts' memory, with NVMe; -1: nothing fits.
                                  // CAPACITY_GPU: -1
    int sensible;                 // index; -1
    bool is_piped;                // the pins ask for a pipeline: nothing was asked
    bool has_nvme;                // some host has
};

MUST_CHECK bool placed_sizes_find(struct arena *arena, const struct scenario_request *request,
                                  const struct scenario *scenario, struct placed_sizes *found,
                                  struct err *err);

// The table and what it comes to; `device_count`: parameters of the largest model on the device
// alone, 0 = none.
char *placed_sizes_text(struct arena *arena, const struct placed_sizes *found, double device_count);
// As the array "placed" of an object.
void placed_sizes_write(struct json_writer *writer, const struct placed_sizes *found);
