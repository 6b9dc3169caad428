#pragma once
#include "executor/run.h"
#include "memory/plan_script.h"

// A training run of a tiny model in one process a rank, for the tests of the executor: planned,
// written out, verified, run, and its weights and gradients put together again.

enum { RUN_RANK_MAX = 12, RUN_STEP_MAX = 8, RUN_KIND_MAX = 256, RUN_TASK_MAX = 8192 };

// What a test breaks in the script of the first stage before it runs, behind the verifier's back.
enum run_break {
    BREAK_NOTHING,
    BREAK_READ,     // a value is read where nothing is
    BREAK_OUTSIDE,  // a value is written behind the arena
    BREAK_FIRST     // who writes a gradient first adds to what is there
};

struct run_case {
    const char *config;  // Hugging Face text
    const char *backend;
    const char *nvme;    // folder for states on NVMe
    const char *logits;  // file for the scores behind the last step; NULL: none
    struct parallel parallel;
    int64_t seq_len, global_batch;
    enum optimizer optimizer;
    enum precision precision;  // of the plan; "cuda" and "cpu-half" compute in it
    int steps;
    double clip_norm, learning_rate, loss_scale;
    bool unclipped;  // no norm is asked for: clip_norm says nothing
    // Rows that there is room for over the mean; 0: the most there can be. And of those that drop.
    double expert_imbalance, capacity_factor;
    bool poison, dropout;
    bool over_nccl;  // data goes over the transport nccl on its emulation: back end "cuda"
    bool operators_apart,
        launches_each;  // nothing runs as one with the next; nothing is recorded and replayed
    bool roam;          // memory planned in full, else greedily
    const struct run_checkpoint *checkpoint;  // NULL: none are written
    unsigned without_joins;                   // rules that the plan leaves out
    enum run_break broken;
    int broken_number;  // of those that can be broken, from 0; wraps round
};

// One rank, everything in one piece; what is not said: 2 sequences a micro-batch.
struct run_case run_case_new(const char *config, int64_t seq_len, int64_t global_batch);
// What of->broken says, done to a script.
void run_case_break(const struct run_case *of, struct script *script);
// A line with all of it, in the arena.
const char *run_case_text(struct arena *arena, const struct run_case *of);

struct run_tensor {
    const char *key;  // "gradient blocks.weight 3"
    int rank;
    int64_t sizes[TENSOR_RANK_MAX];
    double *values;  // NaN where no rank has them
};

struct run_outcome {
    bool done;
    char error[1024];  // of the first rank that failed
    int step_count;
    double loss[RUN_STEP_MAX], norm[RUN_STEP_MAX], loss_scale[RUN_STEP_MAX];
    int64_t peak_bytes, host_peak_bytes, nvme_bytes;
    int64_t replay_count, joined_count;  // the last two of rank 0
    struct run_saved saved;
    struct run_kind kinds[RUN_KIND_MAX];
    int kind_count;
    struct run_task tasks[RUN_TASK_MAX];  // by their numbers in the scripts' step graph
    int task_count;
    struct run_tensor *tensors;
    int tensor_count;
    const struct program *program;  // as run
    const struct stack *stack;
    struct script **scripts;        // [stage]
    int real_bytes, compute_bytes;  // of the back end
};

// NULL where the choices do not go together; `why` then says so.
struct run_outcome *run_case_run(struct arena *arena, const struct run_case *of, struct err *why);
// The same of one that runs to its end: else the test fails.
struct run_outcome *run_case_done(struct arena *arena, const struct run_case *of);

// Gradients that are this small have cancelled, but for rounding.
#define RUN_CANCELLED 1e-6
// What is different beyond `tolerance` of the largest value of each tensor, or of one that has
// cancelled, losses relative; NULL: nothing. Rows that pad the vocabulary are left out.
const char *run_outcome_difference(struct arena *arena, const struct run_outcome *expected,
                                   const struct run_outcome *found, double tolerance);
// The same with no tolerance at all, but for norms: they are sums over what each rank keeps.
const char *run_outcome_bits(struct arena *arena, const struct run_outcome *expected,
                             const struct run_outcome *found);

// The largest error of a gradient: the root of the squares of differences over that of the expected
// values, or over a hundredth of the whole norm where that is more, since gradients that are
// nothing but rounding (the bias of keys) have no digits. *worst: of which. Infinite where one is
// missing or no number.
double run_outcome_error(const struct run_outcome *expected, const struct run_outcome *found,
                         const char **worst);
// Whether every weight that kernels read is the optimizer's, rounded; NULL: it is, or both are one.
const char *run_outcome_rounding(struct arena *arena, const struct run_outcome *found,
                                 enum precision precision);

// Of what the ranks counted, kind of task by kind, the first that is not what their scripts say
// (script_exchanges), and task by task of the step graph the first whose count or bytes are not
// those of the graph; NULL: all is. Of models without experts.
const char *run_outcome_traffic(struct arena *arena, const struct run_outcome *found);
// What is planned for the rank with most (plan_scripts_peak_bytes).
int64_t run_outcome_planned_bytes(const struct run_outcome *found);
