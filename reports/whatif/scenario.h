#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"

// Many questions at once: each is a search (or one plan, where everything is pinned) on one cluster
// with one workload; `whatif` and the report ask for lists of them. Scenarios are independent and
// run on all processors; equal lists give equal bytes whatever the number of processors. What two
// scenarios share is asked once: prices, failures and the length of the run change no plan.

struct scenario {
    const char *label;              // "2 x DGX H100, 4,096 tokens"; lives as long as the list
    const struct cluster *cluster;  // already cut to the GPUs that are asked for
    struct workload workload;
    struct pins pins;
    double tokens;                     // of the whole run; 0: none
    const struct model_config *model;  // NULL: the request's
    double slowest_s;                  // no plan of a slower step is of interest; 0: any is
};

enum scenario_status {
    SCENARIO_FITS,
    SCENARIO_NOTHING_FITS,
    SCENARIO_IMPOSSIBLE,
    SCENARIO_STOPPED  // not searched, because the work was told to stop
};

struct scenario_outcome {
    enum scenario_status status;
    const char *reason;     // of what does not fit or is impossible, a run that never ends among
                            // it: one line
    struct candidate best;  // its plan; where nothing fits the one that misses by least
    struct prediction prediction;  // its money and goodput are those of the scenario's run
    int idle_gpus;  // of the scenario's cluster, which has no faster plan than that of the others
    double parameter_count;
    int64_t checkpoint_bytes;  // of the whole job; 0: of CPUs
    struct communicators communicators;
    bool shared;  // the plan is that of an earlier scenario of the list
};

struct scenario_request {
    const struct model_config *model;
    const struct stack *stack;
    const struct fabrics *fabrics;
    const struct bands *bands;
    enum objective objective;
    bool may_idle;                // GPUs may stand idle where that is faster (planner/idle.h)
    int workers;                  // threads at once; 0: one a processor. 1 starts none
    bool alone;                   // every scenario is searched, also what another one shares
    enum search_nothing nothing;  // of what does not fit; SEARCH_FITS_ONLY leaves `reason` NULL
    const atomic_bool *stop;      // once set, nothing more is searched; NULL: never
    // As scenarios end, in any order, never two calls at once.
    void (*progress)(void *context, int done, int count);
    void *progress_context;
};

// outcomes[count], in the arena. False only where the machine fails; the error names the first
// scenario of the list that failed.
MUST_CHECK bool scenarios_run(struct arena *arena, const struct scenario_request *request,
                              const struct scenario *scenarios, int count,
                              struct scenario_outcome *outcomes, struct err *err);
// How many of the outcomes were searched; the others share a plan.
int scenarios_searched(const struct scenario_outcome *outcomes, int count);
