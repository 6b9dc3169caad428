#pragma once
#include "cli/choice_options.h"
#include "cli/price_options.h"
#include "cli/reliability_options.h"

// The arguments that say what is asked for and what is pinned; `plan` takes them now, other
// commands that search take the same.

struct plan_arguments {
    const char *model, *cluster;
    const struct model_config *given;  // in place of `model`: that of another program's file
    const char *stack, *kernels;
    int64_t nodes, gpus;            // 0 = as the cluster file says
    int ranks;                      // of CLUSTER local; 0 = as many as cores
    int64_t seq_len, global_batch;  // 0 = not given
    double tokens;
    double expert_imbalance, capacity_factor;
    const char *clip;                   // "on", "off"
    const char *precision, *optimizer;  // NULL precision, stack: as the devices have it
    struct choice_argument choices[CHOICE_COUNT];
    const char *stages;
    struct text_list forbid;
    const char *objective, *idle;
    int top;
    bool exhaustive;
    struct reliability_arguments reliability;
    struct price_arguments price;
};

enum { PLAN_OPTION_COUNT = 30 + CHOICE_COUNT + RELIABILITY_OPTION_COUNT + PRICE_OPTION_COUNT };

// Of --tokens, on every command; those of a file may be 0, which is none.
static const double PLAN_TOKENS_LOW = 1, PLAN_TOKENS_HIGH = 1e30;

struct plan_arguments plan_arguments_default(void);

// The rows of the table, without the end row. Returns how many were written.
int plan_options(struct plan_arguments *arguments, struct option options[PLAN_OPTION_COUNT]);

// The pins among them.
MUST_CHECK bool plan_pins(struct arena *arena, const struct plan_arguments *arguments,
                          struct pins *pins, struct err *err);

// MODEL, with notes of near misses in its config on stderr.
MUST_CHECK const struct model_config *plan_model(struct arena *arena, const char *name,
                                                 struct err *err);
// What its config leaves out and what was taken for that, on stderr, once the command can be
// answered: beside an error there is nothing else to read.
void plan_model_notes(const struct model_config *model);

// CLUSTER `name` with the kernels and ranks that the arguments name, and the fabrics that cover it:
// fills these members of the request; also its stack where the cluster brings one along (`local`).
// `command` is for the notes.
MUST_CHECK bool plan_cluster(struct arena *arena, const char *command, const char *name,
                             const struct plan_arguments *arguments, struct search_request *request,
                             struct err *err);

// `--stack NAME`; without one the stack that a cluster has brought along, which is in *stack then,
// else the one of planner/default_stack.h, with a note on stderr. One for all clusters.
struct plan_stack_question {
    const struct cluster *const *clusters;
    int cluster_count;
    const struct model_config *model;
    enum precision precision;
    const struct pins *pins;
};
MUST_CHECK bool plan_stack(struct arena *arena, const char *name,
                           const struct plan_stack_question *question, const struct stack **stack,
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
// Whether GPUs may stand idle (planner/idle.h). ERR_USAGE where that makes no sense.
MUST_CHECK bool plan_may_idle(const struct plan_arguments *arguments, bool *may, struct err *err);

// `--kernels NAME`: the cluster becomes one whose devices use the table; NULL changes nothing.
MUST_CHECK bool plan_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                             struct err *err);

// Loads what the arguments name and fills the request (not `progress`). Notes about defaults taken
// and near misses in the config go to stderr. False and a set `err`.
MUST_CHECK bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                             struct search_request *request, struct err *err);
