#pragma once
#include "cli/checkpoint_options.h"
#include "cli/training_options.h"
#include "executor/run.h"
#include "memory/plan_script.h"
#include "reports/comparison/run_compare.h"

// What `run` and its ranks know of a plan: cli/run*.c share this.

struct run_arguments {
    const char *plan, *output, *trace, *backend, *dump, *logits, *nvme, *kernels;
    int steps;
    double epochs;  // of the files in place of steps; 0: not said
    int64_t seed;
    int64_t device_memory_bytes;  // of a rank; 0: not said
    struct training_arguments training;
    bool poison, json, spawn;
    int replay_rank;  // alone, the others by the model; -1: all ranks run
    const char *transport, *rendezvous, *job;
    int node_rank, node_count;  // -1, 0: not said
    struct checkpoint_arguments checkpoint;
};

struct run_job {
    const char *text;  // of the plan file
    struct evaluation_request request;
    struct evaluation evaluation;  // with a trace
    struct ledger ledger;          // of its prices
    struct script **scripts;       // [stage], verified; of the replicas with most micro-batches
    struct script ***replicas;     // [replica] of these; NULL: all replicas run `scripts`
    int stage_count, rank_count;
    double clip_norm;
    const struct plan_schedule *schedule;  // of memory, that the plan file has; NULL: none
    int messages;                          // under way on one link at most
    bool is_planned;                       // the plan's own memory schedule is used
};

MUST_CHECK bool run_job_load(struct arena *arena, const struct run_arguments *arguments,
                             struct run_job *job, struct err *err);
// The same job, priced anew with attention that stays within documents of so many tokens
// (models/attended.h). What runs is the same, and what memory it takes.
MUST_CHECK const struct run_job *run_job_masked(struct arena *arena, const struct run_job *job,
                                                double document_tokens, struct err *err);
int run_job_stage(const struct run_job *job, int rank);
const struct script *run_job_script(const struct run_job *job, int rank);

// Says that ranks take turns on cores where there are more of them: they are slower than on cores
// of their own, which is predicted only where `local` was measured with as many.
void run_job_say_turns(int rank_count, int core_count);

// cli/run_choices.c: what a calibration has found for the GEMMs of a run, from the table of this
// name or, NULL, from what is kept of this machine. `speaks`: says on stderr what is used.
MUST_CHECK bool run_choices(struct arena *arena, const char *name, const struct backend *backend,
                            struct device *device, bool speaks, struct err *err);

// One rank of the job, from opening its device to the answer of rank 0. `page` NULL: nobody
// watches.
int run_rank(struct arena *arena, const struct run_arguments *arguments, const struct run_job *job,
             const struct launch_place *place, struct heartbeat_page *page, struct err *err);
