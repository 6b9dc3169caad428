#pragma once
#include "cost_models/band.h"
#include "cost_models/goodput.h"

// How long a run takes and what it costs. This is the one place where days, GPU-hours and money are
// computed: every command, page and file asks money_of and prints what it says (docs/money.md).
//
// The run is as many whole steps as its tokens need. It takes the mean wall clock of a job with the
// cluster's interruptions (cost_models/goodput.h), or where they are not known that without any.
// Paid are all GPUs of the cluster, idle ones too, and those of its spare nodes, all of that time.

struct money_request {
    const struct cluster *cluster;       // its price, ranks, spares and failures
    int idle_gpus;                       // of its ranks: they are paid for and do no work
    double step_s;                       // without interruptions, > 0
    double step_tokens;                  // > 0
    double tokens;                       // of the whole run; 0: not asked
    int64_t checkpoint_bytes;            // of the whole job; 0: its interruptions are not known
    const struct band *band;             // of the step's time; NULL: none
    struct communicators communicators;  // that a restart makes anew
};

// INFINITY for a run that never ends.
struct money {
    double train_s;          // of the run, interruptions included; 0: no tokens
    double uninterrupted_s;  // the same without them
    double gpu_hours;        // that are paid for
    double total;            // in `currency`; 0: no tokens or no price
    // Of a billion tokens: their share of the run, or where no tokens are asked for of a run
    // without an end.
    double billion_s, billion_gpu_hours;
    double per_billion_tokens;
    double gpu_count;      // that are paid for, spares included
    const char *currency;  // NULL: no price
};

// `low` and `high` are the run at the ends of the band of its step, with its interruptions; both
// are all 0 without a band.
struct money_band {
    struct money money, low, high;
    struct goodput goodput;  // at the step's own time
};
struct money_band money_of(const struct money_request *request);

// The same without band and without the quantiles of the goodput: for whoever asks many times.
struct money money_mean_of(const struct money_request *request);

// The most tokens, in whole steps, of which the run takes no longer than `time_s` and costs no more
// than `total`; either may be INFINITY, not both. 0 where not even one step does.
double money_most_tokens(const struct money_request *request, double time_s, double total);
