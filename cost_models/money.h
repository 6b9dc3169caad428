#pragma once
#include "topologies/cluster.h"

// Time and money to finish: GPU-hours and price. Zero where the cluster has no price or no token
// count was asked for; `per_billion_tokens` needs a price only.
struct money {
    double gpu_hours;  // for `tokens`
    double total;      // in `currency`
    double per_billion_tokens;
    double train_s;
    const char *currency;
};
struct money money_of(const struct cluster *cluster, double tokens_per_s, double tokens);
