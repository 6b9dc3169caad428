#pragma once
#include "reports/whatif/sweep.h"

// Two questions that are answered by trying sizes one after the other: the smallest number of GPUs
// on which a model fits, and the largest model of a family that fits on a cluster.

// Tries 1, 2, ... GPUs of a node, then whole nodes (or the counts of `sizes`, ascending), and takes
// the first that a plan fits on. `outcome` is that plan's. Above `most` it gives up, and where the
// batch grows with the GPUs past what the optimizer is known to bear, unless one size is asked for.
struct least_gpus {
    const struct cluster *cluster;  // of so many GPUs; NULL: none up to `most`
    struct scenario_outcome outcome;
    int64_t batch;  // of that cluster
    int64_t tried;  // the largest count that was tried
    bool is_past;   // it gave up for the batch
};
// Why `found` has no cluster, in a few words.
const char *least_gpus_none(const struct least_gpus *found);
MUST_CHECK bool least_gpus_find(struct arena *arena, const struct scenario_request *request,
                                const struct sweep *sweep, const struct cluster *cluster,
                                const struct sweep_list *sizes, int64_t most,
                                struct least_gpus *found, struct err *err);

// Where what does not fit on the GPUs may go.
enum capacity { CAPACITY_GPU, CAPACITY_HOST, CAPACITY_NVME, CAPACITY_COUNT };
const char *capacity_name(enum capacity tier);

// The largest model of the shape of the request's (models/scaled.h) that a plan fits on, with
// nothing, then optimizer states, parameters, gradients and activations as far as the stack moves
// them, in the hosts' memory, then on their drives. Found by doubling and halving: of its
// neighbours the next larger one does not fit.
struct largest_model {
    struct {
        const struct model_config *model;  // NULL: not even the smallest fits
        int64_t steps;                     // of model_scale_step
        double parameter_count;
        const char *offload;  // what is moved there: as the command line writes it
        struct scenario_outcome outcome;
    } tiers[CAPACITY_COUNT];
};
// `scenario`: cluster and workload; its pins must leave offload open.
MUST_CHECK bool largest_model_find(struct arena *arena, const struct scenario_request *request,
                                   const struct scenario *scenario, struct largest_model *found,
                                   struct err *err);
