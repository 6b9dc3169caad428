#pragma once
#include "cli/run_job.h"
#include "cost_models/goodput.h"

// Checkpoints of a run, as the engine is told of them, and what they are predicted to cost.

struct run_checkpoints {
    struct run_checkpoint options;
    struct goodput predicted;  // of this cluster, written beside training
    double step_s;             // predicted
    bool is_first;             // the rank that speaks for all
};

// False with ERR_USAGE when it is left to the cluster's failures how often, and they are not known.
// From here on SIGTERM asks for the end of the run. `checkpoints` must outlive it.
MUST_CHECK bool run_checkpoints_make(struct arena *arena, const struct checkpoint_arguments *given,
                                     const struct run_job *job, const char *plan_hash,
                                     struct run_checkpoints *checkpoints, struct err *err);
