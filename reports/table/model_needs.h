#pragma once
#include "reports/whatif/whatif_sizes.h"

// What a model needs, asked by its name alone: memory, and of each kind of GPU how many hold it and
// how long one would take.

struct model_needs {
    const struct model_config *model;
    const char *word;  // the model as it was asked for: a path or a name
    const struct stack *stack;
    struct workload workload;  // one sequence
    double parameter_count, active_count;
    // As if all stood on one device: no parallelism, no recompute, one sequence.
    struct memory_parts memory;
    double flop_per_token;  // of the model, forward and backward; recompute never counted
};
// Of one sequence at a time on one GPU of the cluster. ERR_USAGE where the stack does not train in
// this precision.
MUST_CHECK bool model_needs_find(const struct scenario_request *request,
                                 const struct cluster *cluster, const struct workload *workload,
                                 struct model_needs *needs, struct err *err);

struct device_needs {
    const struct cluster *cluster;  // as it is shipped
    const struct device *device;
    int64_t least_by_bytes;  // memory over that of a device, rounded up: no plan needs fewer
                             // without moving or recomputing anything
    struct least_gpus least;
    double years_at_peak;  // of one device at its dense peak, for the tokens; 0: not asked
    double gpu_years;      // that the run on the least number takes, interruptions included
};

// For the tokens of the workload; `cluster` as it is shipped, up to `most` GPUs.
MUST_CHECK bool device_needs_find(struct arena *arena, const struct scenario_request *request,
                                  const struct sweep *sweep, const struct model_needs *needs,
                                  const struct cluster *cluster, int64_t most,
                                  struct device_needs *device, struct err *err);

// Seconds of one device that runs so many flops at a rate, in years of 365 days.
double years_of(double flop, double flop_per_s);

// The text of all; a column of money where all clusters have a price in one currency.
char *model_needs_text(struct arena *arena, const struct model_needs *needs,
                       const struct device_needs *devices, int device_count);
char *model_needs_json(struct arena *arena, const struct model_needs *needs,
                       const struct device_needs *devices, int device_count);
