#pragma once
#include "core/json_write.h"
#include "topologies/provenance.h"

// The software that trains a recommendation model, as data: cost_models/tables/NAME.json, a
// provenance for every constant; schema table-stack.

struct table_stack {
    const char *name, *description;
    bool overlaps;        // exchanges run beside compute; else one thing after another
    bool prefetches_ids;  // ids of the next step are exchanged during this one
    bool hierarchical;  // between nodes sums of one table are added up inside each node first, and
                        // a gradient goes once to each node (struct exchanged)
    double gemm_scale;  // on the device's GEMM ratio
    double cross_passes_forward;   // walks over (samples, joined width) of a cross layer beside its
    double cross_passes_backward;  // products
    double join_passes;            // of putting vectors side by side, and of taking them apart
    double activation_passes_backward;  // walks over a layer's outputs: bias and activation
    double sort_bytes_per_id;           // moved to find which ids of a step are alike
    double sparse_kernels;              // launched a step by look-up, grouping and update of rows
    double copy_ratio;                  // of the bandwidth between device and host
    double step_overhead_s;             // once a step: input, host, what waits for the slowest rank
    int64_t reserve_bytes;              // of the device: context, communicators, workspaces
    struct provenance *provenance;
    int provenance_count;
};

// A shipped name or a path. NULL and a set `err` if it is wrong.
MUST_CHECK const struct table_stack *table_stack_load(struct arena *arena, const char *name,
                                                      struct err *err);
MUST_CHECK const struct table_stack *table_stack_read(struct arena *arena,
                                                      const struct json *object, struct err *err);
void table_stack_write(struct json_writer *writer, const char *key,
                       const struct table_stack *stack);
