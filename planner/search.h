#pragma once
#include "core/units.h"
#include "cost_models/memory.h"
#include "cost_models/money.h"
#include "cost_models/stack.h"
#include "cost_models/step.h"
#include "models/import.h"
#include "planner/cut.h"

#include <stdatomic.h>

// The search: enumerates degrees (experts and context included), chunks, schedules, ZeRO,
// recompute, micro-batch, axis order and uneven stages; bounds each group of plans from the graph
// alone, lowers those whose bound is lowest, prices them by the closed form and stops when no bound
// is below the plans kept; the best few are simulated event by event. What is pinned is kept.

// What the user fixed. A value outside a set range, or forbidden, is never proposed.
// A number or a choice of many bits is a range, a word its value or -1: not pinned.
// Branches of the model side by side: where that is faster, never, or always.
enum branches_wish { BRANCHES_FREE, BRANCHES_OFF, BRANCHES_ON };

struct pins {
    struct int_range degree[AXIS_COUNT];
#define RANGE_PIN(member) struct int_range member;
#define WORD_PIN(member) int member;
#define CHOICE_NUMBER(id, member, ...) RANGE_PIN(member)
#define CHOICE_SIZE(id, member, ...) RANGE_PIN(member)
#define CHOICE_SWITCH(id, member, ...) WORD_PIN(member)
#define CHOICE_WORD(id, member, ...) WORD_PIN(member)
#define CHOICE_WORDS(id, member, pin, ...) pin##_PIN(member)
#include "plan/choices.inc"
#undef RANGE_PIN
#undef WORD_PIN
    bool search_offload;  // `offload` not set: nothing is moved, unless this asks for a search of
                          // states, whole layers, and then classes of operators where they may win
                          // (planner/refine.h)
    enum tier search_parameters;  // beside search_offload: where parameters are in every plan, all
                                  // of which move states then; TIER_DEVICE: not moved
    bool search_gradients;        // beside them: gradients are on the host in every plan
    const int *stage_layers;
    int stage_layers_count;
    const int *replica_micro_batches;  // planner/unlike.h; search_plans does not look at them
    int replica_count;
    // Ranks of tp of each stage (planner/meshes.h); search_plans does not look at them. Or every
    // one that may be better than one mesh for all.
    const int *stage_tp;
    int stage_tp_count;
    bool search_stage_tp;
    const int *stage_ranks;  // of each stage (planner/meshes.h); search_plans does not look at them
    int stage_ranks_count;
    bool search_stage_ranks;            // numbers of ranks and of tp, where they are better
    enum branches_wish branches;        // planner/branches.h; search_plans does not look at them
    const struct layout_rule *layouts;  // of every plan (plan/layout/rules.h)
    int layout_count;
    bool per_operator;  // the best plans get layouts of their own (planner/per_operator.h)
    bool supposed;      // a question completes them ("what if pp were 4?"): they describe no run
    struct {
        const char *key;
        int64_t value;
    } forbidden[32];
    int forbidden_count;
};

// Every plan uses all GPUs of the cluster, so on one cluster the cheapest plan is the fastest:
// fewer GPUs are another cluster (`--gpus`, `whatif`). Memory: the smallest reserved_bytes, ties by
// time.
enum objective { OBJECTIVE_TIME, OBJECTIVE_COST, OBJECTIVE_MEMORY };

// How much is found out where nothing fits: the plan that misses by least and what would help, that
// plan alone, or nothing more (`closest` and what follows it stay empty). Each is a search.
enum search_nothing { SEARCH_REMEDIES, SEARCH_CLOSEST, SEARCH_FITS_ONLY };

struct search_request {
    const struct model_config *model;
    const struct cluster *cluster;
    const struct stack *stack;
    const struct fabrics *fabrics;
    struct workload workload;
    struct pins pins;
    enum objective objective;
    int top;          // plans wanted, best first
    double below_s;   // plans that take this long are as good as none (closed form); 0: all count
    bool exhaustive;  // no bounds: prices every legal plan; proves the pruned search
    enum search_nothing nothing;
    // best_s: INFINITY while no plan fits.
    void (*progress)(void *context, double done_ratio, double best_s, double plans_per_s);
    void *progress_context;
    const atomic_bool *stop;  // once set, the search ends with the best so far; NULL: never
};

// Polled between groups of plans, tails and simulations.
static inline bool search_should_stop(const struct search_request *request)
{
    return request->stop && atomic_load(request->stop);
}

struct candidate {
    struct parallel parallel;
    struct cost cost;            // events for the final ones, else closed form
    double closed_form_s;        // what the search compared
    struct memory_parts memory;  // worst stage
    int worst_stage;
    int64_t host_short_bytes;  // that the fullest host lacks of memory or drives for what is moved
    const char *host_lack;     // and of which most
    bool simulated;
};

// Two statuses: the call's (err) and the answer's. Optimal means optimal under the closed form, by
// certificate: no plan that pins could ask for is a nanosecond faster (smaller, when memory is the
// objective) than the best one. Best-of means the same of the space that was searched, of which
// `cuts` says what it leaves out. Feasible means that the events put another plan first; then
// bound_s says how much the closed form could still gain. Stopped is the best of the plans priced
// until then (best_count 0: none that fits), and bounds are 0: nothing is proven.
enum search_status {
    SEARCH_OPTIMAL,
    SEARCH_BEST_OF,
    SEARCH_FEASIBLE,
    SEARCH_NOTHING_FITS,
    SEARCH_STOPPED
};

// Why choices were dropped, counted.
enum drop { DROP_MEMORY, DROP_BOUND, DROP_STACK, DROP_DIVIDE, DROP_COUNT };

struct search_result {
    enum search_status status;
    struct candidate *best;  // best first
    int best_count;
    double bound_s;       // proven: no plan in the space that fits is faster (closed form),
                          // nor one by classes of the tails that were asked of
    bool bounds_work;     // bound_s is of all plans, in any space: planner/bound.h, bound_work_s
    double layers_s;      // classes were asked of: the fastest of the space, which is whole
                          // layers, and which the best by classes may be below; 0: not
    int64_t bound_bytes;  // objective memory: none is smaller; else 0
    struct open_cut cuts[CUT_COUNT];  // of nothing that fits: what might
    int cut_count;
    double considered_count;  // plans the space holds
    double priced_count;      // of them through the closed form
    // considered = memory + bound + those kept. Stack and divide count meshes and schedules that
    // hold no plan at all and are not among the considered ones.
    double dropped[DROP_COUNT];
    // nothing fits: the plan that misses by least, and the smallest changes that would fit
    struct candidate closest;
    int64_t shortfall_bytes;
    const char *limit;  // the largest part of its memory: "weights", "activations", ...
    const char *remedies[6];
    int remedy_count;
};

// What is wrong with a request whatever the number of GPUs: false and ERR_USAGE.
MUST_CHECK bool search_check_request(const struct search_request *request, struct err *err);

// The result lives in `arena`. False and ERR_USAGE when the pins contradict each other or the
// model.
MUST_CHECK bool search_plans(struct arena *arena, const struct search_request *request,
                             struct search_result *result, struct err *err);
