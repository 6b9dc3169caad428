#pragma once
#include "core/json.h"
#include "plan/plan.h"
#include "planner/search.h"
#include "simulator/evaluate.h"

// A question of the planner, whoever asks it: the command line, a program through
// library/meshwright.h, an assistant through library/serve.h. All three fill the same struct and
// get the same request, so that what is taken where nothing was said is decided here alone.

// Who hears what is taken in place of what was not said, and what is odd: one line each, without
// its end, which may quote a file. NULL: nobody.
struct inquiry_ear {
    void (*note)(void *context, const char *line);
    void (*warn)(void *context, const char *line);
    void *context;
};

struct inquiry {
    const char *model, *cluster;    // paths, or names of shipped files
    const char *stack, *kernels;    // NULL: the default of the devices; none
    int64_t nodes, gpus;            // 0: as the cluster's file says
    int64_t device_memory_bytes;    // 0: as the devices have it
    int64_t seq_len, global_batch;  // 0: taken, with a note
    double tokens;                  // to train in all; 0: not asked
    double expert_imbalance, capacity_factor;
    bool unclipped;
    const char *precision, *optimizer;  // known words; NULL: bf16 (fp32 on CPUs), adamw
    struct pins pins;
    enum objective objective;
    int top;
    bool exhaustive;
    struct inquiry_ear ear;
};
// Nothing pinned, the five fastest wanted, nobody hears.
struct inquiry inquiry_start(void);

// library/inquiry_read.c: the same of a JSON object, as library/meshwright.h describes it.
// ERR_INPUT at its place, or ERR_USAGE for a pin that is none.
MUST_CHECK bool inquiry_read(struct arena *arena, const struct json *at, struct inquiry *inquiry,
                             struct err *err);

// A line that names options of the command line, for who asks by an object: "--seq-len 4096"
// becomes "seq_len 4096", the member of that name. Changes `text` and returns it.
char *inquiry_members(char *text);

// The request of the search. What it has already stays (not its workload): a model, a cluster with
// its fabrics (inquiry_cluster), a stack that came with that. All of it lives in `arena`.
MUST_CHECK bool inquiry_request(struct arena *arena, const struct inquiry *inquiry,
                                struct search_request *request, struct err *err);

// Its parts, for who asks for several clusters at once.
MUST_CHECK const struct model_config *inquiry_model(struct arena *arena,
                                                    const struct inquiry *inquiry, struct err *err);
// Takes the nodes and GPUs that are asked for from a cluster, gives it the kernels, and finds the
// fabrics that cover it.
MUST_CHECK bool inquiry_cluster(struct arena *arena, const struct inquiry *inquiry,
                                struct cluster *cluster, struct search_request *request,
                                struct err *err);
// The cluster becomes one whose devices use the table of this name; NULL changes nothing.
MUST_CHECK bool inquiry_kernels(struct arena *arena, const char *name,
                                const struct cluster **cluster, struct err *err);
// Without a batch: the sequences nearest to this many tokens a step, the batch that most published
// runs of large models use (GPT-3: 3.2 M, Llama 2: 4 M); on CPU ranks one sequence a rank.
static const int64_t INQUIRY_BATCH_TOKENS = 4 << 20;
// Precision, optimizer and what else no list changes. `cluster` NULL: of GPUs.
void inquiry_workload(const struct inquiry *inquiry, const struct cluster *cluster,
                      struct workload *workload);
// A length that is not given is taken; one that the model was not made for is warned of.
int64_t inquiry_seq_len(struct arena *arena, const struct inquiry *inquiry,
                        const struct model_config *model, int64_t given);
// The stack that is named; else the one that came with a cluster, which is in *stack then, else the
// one of planner/default_stack.h. One for all clusters.
MUST_CHECK bool inquiry_stack(struct arena *arena, const struct inquiry *inquiry,
                              const struct model_config *model,
                              const struct cluster *const *clusters, int cluster_count,
                              enum precision precision, const struct stack **stack,
                              struct err *err);
// What the model's config leaves out and what was taken for that: once there is an answer, since
// beside an error there is nothing else to read.
void inquiry_model_notes(const struct inquiry *inquiry, const struct model_config *model);

// A plan file as the question that it answers: its model, cluster, workload, choices and stack, and
// the shipped fabrics and bands, which know of how many plans it was selected.
MUST_CHECK bool inquiry_of_plan(struct arena *arena, const struct plan *plan, const char *kernels,
                                struct evaluation_request *request, struct err *err);
