#pragma once
#include "models/import.h"
#include "planner/choice.h"
#include "planner/search.h"
#include "tests/support/test.h"
#include "topologies/cluster.h"

// A question that a search answers in a moment: gpt2 on two GPUs, nothing pinned.
static inline struct search_request pair_search(struct arena *arena)
{
    struct err err = {0};
    struct search_request search = {.pins = pins_none(), .top = 1, .nothing = SEARCH_FITS_ONLY};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", &err);
    assert_true(cluster && cluster_take_gpus(cluster, 2, &err));
    search.cluster = cluster;
    search.model = model_load(arena, "gpt2", NULL, NULL, &err);
    search.stack = stack_load(arena, "meshwright", &err);
    search.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    search.workload = (struct workload){.seq_len = 1024,
                                        .global_batch = 16,
                                        .precision = PRECISION_BF16,
                                        .optimizer = OPTIMIZER_ADAMW};
    return search;
}
