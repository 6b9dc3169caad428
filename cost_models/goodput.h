#pragma once
#include "topologies/cluster.h"

// What failures leave of a run: how often the job is interrupted, how often it should write a
// checkpoint, the share of time that makes progress, and when the run ends. Young (1974) and Daly
// (2006), "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
// Generation Computer Systems 22, equations 20 and 37; quantiles by simulating the renewal process.

struct goodput_request {
    const struct cluster *cluster;  // failures, and how many ranks
    double step_s;                  // without interruptions
    int64_t checkpoint_bytes;       // of the whole job: weights, master weights and moments
    double steps;                   // of the whole run; 0: no finish is asked for
    double checkpoint_interval_s;   // what the user fixed; 0: the best
    bool blocking;              // the job stands while a checkpoint is written; else only while it
                                // is copied to the hosts (`checkpoint_stall_s`)
    double checkpoint_stall_s;  // of one checkpoint that is written beside training
    int spare_nodes;            // hot ones: a failed node is replaced at once while there are any
    double repair_s;            // until a failed node is back as a spare
};

enum { GOODPUT_QUANTILE_COUNT = 3 };  // 10, 50 and 90 %

struct goodput {
    double mtbf_s;        // of the job
    double checkpoint_s;  // one checkpoint: what the job loses by it
    double interval_s;    // between the ends of two checkpoints, work only
    bool interval_is_best;
    double restart_s;      // from a failure to the first step after it, waiting for nodes included
    double goodput_ratio;  // progress over wall clock
    double checkpoint_ratio, lost_ratio, restart_ratio;  // the rest: these four sum to 1
    double expected_s;                                   // of the whole run; 0: not asked
    double finish_s[GOODPUT_QUANTILE_COUNT];
    double interruptions;  // expected, over the whole run
};

// Equal requests give equal bytes: the process is drawn from a fixed seed.
struct goodput goodput_of(const struct goodput_request *request);
