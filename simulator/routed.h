#pragma once
#include "plan/token_routing.h"
#include "simulator/evaluate.h"

// A plan of a model with experts under routing that is data: what a step takes, what its busiest
// ranks receive and keep, as distributions over draws. A draw is a step: each layer's rows are
// drawn for one group of expert parallelism, the busiest rank of a layer paces it. Seconds and
// bytes between a few imbalances at which the plan is evaluated are interpolated; a step takes
// them at the mean of its layers, memory at the rank that is fullest over all layers.

struct routed_spread {
    double p50, p90, p99;
};

enum { ROUTED_REPLICA_MAX = 5, ROUTED_CAPACITY_MAX = 4 };

struct routed_remedy {
    double amount;         // replicas of the hottest experts on every rank; or a capacity factor
    double step_s;         // median
    double dropped_ratio;  // of rows, mean; of capacity alone
    int64_t added_bytes;   // weights, gradients and states of replicas on a rank; of replicas alone
};

struct routed {
    int layer_count, expert_count, rank_count, draw_count;
    double tokens;  // of a micro-batch, all ranks of an expert group together
    const double
        *first_rows;  // by expert: of the first layer of the first step, of the whole group
    double balanced_step_s;
    struct routed_spread imbalance;  // of layers: rows of the busiest rank over the mean
    struct routed_spread rows;       // that it receives in one layer
    struct routed_spread step_s;
    struct routed_spread exchange_bytes;  // that it receives in one dispatch, 2 bytes an element
    struct routed_spread reserved_bytes;  // of the fullest rank
    int64_t device_bytes;
    double unfit_ratio;      // of draws: more than the device has
    double replaced_step_s;  // median, with experts placed anew for the rows of each layer
    struct routed_remedy replicas[ROUTED_REPLICA_MAX], capacities[ROUTED_CAPACITY_MAX];
    int replica_count, capacity_count;
};

// ERR_USAGE where the model has no experts. Equal seeds give equal answers. Lives in `arena`.
MUST_CHECK bool routed_make(struct arena *arena, const struct evaluation_request *request,
                            const char *routing, int draw_count, int64_t seed,
                            struct routed *routed, struct err *err);
