#pragma once
#include "cli/reliability_options.h"
#include "planner/search.h"

// The arguments that say what is asked for and what is pinned; `plan` takes them now, other
// commands that search take the same.

struct plan_arguments {
    const char *model, *cluster;
    const char *stack, *kernels;
    int64_t nodes, gpus;            // 0 = as the cluster file says
    int ranks;                      // of CLUSTER local; 0 = as many as cores
    int64_t seq_len, global_batch;  // 0 = not given
    double tokens;
    double expert_imbalance, capacity_factor;
    const char *precision, *optimizer;  // NULL precision, stack: as the devices have it
    struct int_range degree[AXIS_COUNT];
    struct int_range vpp, micro_batch, zero, zero_group, recompute_layers, in_flight;
    int bucket_bytes;  // 0 = not given
    const char *sp, *cp_kind, *recompute, *schedule, *attention, *overlap, *passes, *offload;
    const char *stages;
    struct text_list forbid;
    const char *objective;
    int top;
    bool exhaustive;
    struct reliability_arguments reliability;
};

enum { PLAN_OPTION_COUNT = 50 + RELIABILITY_OPTION_COUNT };

struct plan_arguments plan_arguments_default(void);

// The rows of the table, without the end row. Returns how many were written.
int plan_options(struct plan_arguments *arguments, struct option options[PLAN_OPTION_COUNT]);

// `--kernels NAME`: the cluster becomes one whose devices use the table; NULL changes nothing.
MUST_CHECK bool plan_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                             struct err *err);

// Loads what the arguments name and fills the request (not `progress`). Notes about defaults taken
// and near misses in the config go to stderr. False and a set `err`.
MUST_CHECK bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                             struct search_request *request, struct err *err);
