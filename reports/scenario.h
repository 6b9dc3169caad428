#pragma once
#include "cost_models/goodput.h"
#include "planner/search.h"
#include "simulator/evaluate.h"

// Many questions at once: each is a search (or one plan, where everything is pinned) on one cluster
// with one workload; `whatif` and the report ask for lists of them. Scenarios are independent and
// run on all processors; equal lists give equal bytes whatever the number of processors.

struct scenario {
    const char *label;              // "2 x DGX H100, 4,096 tokens"; lives as long as the list
    const struct cluster *cluster;  // already cut to the GPUs that are asked for
    struct workload workload;
    struct pins pins;
    double tokens;  // of the whole run; 0: none
};

struct scenario_outcome {
    enum { SCENARIO_FITS, SCENARIO_NOTHING_FITS, SCENARIO_IMPOSSIBLE } status;
    const char *reason;     // of what does not fit or is impossible: one line
    struct candidate best;  // its plan
    struct prediction prediction;
    struct goodput goodput;   // of `tokens`, or of a run without an end
    double run_s, run_money;  // `tokens` with interruptions, in the cluster's currency; 0: unknown
};

struct scenario_request {
    const struct model_config *model;
    const struct stack *stack;
    const struct fabrics *fabrics;
    const struct bands *bands;
    enum objective objective;
    int workers;  // processes at once; 0: one a processor
    void (*progress)(void *context, int done, int count);
    void *progress_context;
};

// outcomes[count], in the arena. False only where the machine fails.
MUST_CHECK bool scenarios_run(struct arena *arena, const struct scenario_request *request,
                              const struct scenario *scenarios, int count,
                              struct scenario_outcome *outcomes, struct err *err);
