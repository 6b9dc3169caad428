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

// The pins among them.
MUST_CHECK bool plan_pins(struct arena *arena, const struct plan_arguments *arguments,
                          struct pins *pins, struct err *err);

// MODEL, with notes of near misses in its config on stderr.
MUST_CHECK const struct model_config *plan_model(struct arena *arena, const char *name,
                                                 struct err *err);

// CLUSTER `name` with the kernels and ranks that the arguments name, the stack to go with it, and
// the fabrics that cover it: fills these members of the request. `command` is for the notes.
MUST_CHECK bool plan_cluster(struct arena *arena, const char *command, const char *name,
                             const struct plan_arguments *arguments, struct search_request *request,
                             struct err *err);

// What is taken for a length that is not given, a note on stderr included; a warning about one that
// the model was not made for.
int64_t plan_seq_len(struct arena *arena, const struct model_config *model, int64_t given);

// Without a batch: the sequences nearest to this many tokens a step, the batch that most published
// runs of large models use (GPT-3: 3.2 M, Llama 2: 4 M).
static const int64_t PLAN_BATCH_TOKENS = 4 << 20;

// Precision and optimizer by name, and what else of the workload no list changes. `cluster` NULL:
// of GPUs.
void plan_workload(const struct plan_arguments *arguments, const struct cluster *cluster,
                   struct workload *workload);

enum objective plan_objective(const char *name);

// `--kernels NAME`: the cluster becomes one whose devices use the table; NULL changes nothing.
MUST_CHECK bool plan_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                             struct err *err);

// Loads what the arguments name and fills the request (not `progress`). Notes about defaults taken
// and near misses in the config go to stderr. False and a set `err`.
MUST_CHECK bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                             struct search_request *request, struct err *err);
