#pragma once
#include "core/arena.h"

// Splits a row of layers into consecutive, non-empty stages so that the slowest stage is as fast as
// can be: in a pipeline of many micro-batches that stage sets the pace. The embedding and the head
// ride on the first and the last stage, sending costs every stage but the last `cut_s`. Among
// splits with the fastest slowest stage, later stages are filled first: early stages hold the
// activations of the most micro-batches.

struct partition_request {
    int layer_count, stage_count;
    const double *layer_s;   // one a layer
    double first_s, last_s;  // what the first and the last stage do besides layers
    double cut_s;
    // Memory, or NULL: a stage holds static + in flight * saved bytes of each of its layers.
    const double *layer_static_bytes, *layer_saved_bytes;
    const double *in_flight;  // one a stage
    double first_bytes, last_bytes, limit_bytes;
};

// Writes the number of layers of every stage. False when no split fits the memory (or there are
// fewer layers than stages); `slowest_s` may be NULL.
bool partition_balance(struct arena *scratch, const struct partition_request *request,
                       int *stage_layers, double *slowest_s);

// The seconds of the slowest stage of a given split.
double partition_slowest(const struct partition_request *request, const int *stage_layers);
