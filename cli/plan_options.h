#pragma once
#include "cli/choice_options.h"
#include "cli/price_options.h"
#include "cli/reliability_options.h"
#include "library/inquiry.h"

// The arguments that say what is asked for and what is pinned; `plan` takes them now, other
// commands that search take the same.

struct plan_arguments {
    const char *model, *cluster;
    const struct model_config *given;  // in place of `model`: that of another program's file
    const char *stack, *kernels;
    int64_t nodes, gpus;            // 0 = as the cluster file says
    int64_t device_memory_bytes;    // 0 = as its devices have it
    int ranks;                      // of CLUSTER local; 0 = as many as cores
    int64_t seq_len, global_batch;  // 0 = not given
    double tokens;
    double expert_imbalance, capacity_factor;
    const char *clip;                   // "on", "off"
    const char *precision, *optimizer;  // NULL precision, stack: as the devices have it
    struct choice_argument choices[CHOICE_COUNT];
    const char *stages, *replica_batches, *stage_tp, *stage_ranks, *branches;
    const char *annotate;  // file of layouts
    bool per_operator;
    struct text_list forbid;
    const char *objective, *idle;
    int top;
    bool exhaustive;
    struct reliability_arguments reliability;
    struct price_arguments price;
};

enum { PLAN_OPTION_COUNT = 31 + CHOICE_COUNT + RELIABILITY_OPTION_COUNT + PRICE_OPTION_COUNT };

// Of --tokens, on every command; those of a file may be 0, which is none.
static const double PLAN_TOKENS_LOW = 1, PLAN_TOKENS_HIGH = 1e30;

struct plan_arguments plan_arguments_default(void);

// The rows of the table, without the end row. Returns how many were written.
int plan_options(struct plan_arguments *arguments, struct option options[PLAN_OPTION_COUNT]);

// The pins among them.
MUST_CHECK bool plan_pins(struct arena *arena, const struct plan_arguments *arguments,
                          struct pins *pins, struct err *err);

// The question of these arguments but for its pins; who hears it prints notes and warnings on
// stderr.
struct inquiry plan_asked(const struct plan_arguments *arguments);

// CLUSTER `name` with the kernels and ranks that the arguments name, and the fabrics that cover it:
// fills these members of the request; also its stack where the cluster brings one along (`local`).
// `command` is for the notes.
MUST_CHECK bool plan_cluster(struct arena *arena, const char *command, const char *name,
                             const struct plan_arguments *arguments, struct search_request *request,
                             struct err *err);

enum objective plan_objective(const char *name);
// Whether GPUs may stand idle (planner/idle.h). ERR_USAGE where that makes no sense.
MUST_CHECK bool plan_may_idle(const struct plan_arguments *arguments, bool *may, struct err *err);

// Loads what the arguments name and fills the request (not `progress`). Notes about defaults taken
// and near misses in the config go to stderr. False and a set `err`.
MUST_CHECK bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                             struct search_request *request, struct err *err);
