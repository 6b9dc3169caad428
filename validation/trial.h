#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"
#include "validation/rows.h"

// A row as the question that `plan` would be asked: a Hugging Face config, a cluster, pins for all
// that the row states. What it leaves open the search chooses, as for any user.

struct trial {
    const struct row *row;
    const struct model_config *model;
    const struct cluster *cluster;
    const struct stack *stack;
    struct workload workload;
    struct pins pins;
    enum row_kind kind;
    // answered
    bool answered;
    const char *why_not;  // one line, as `plan` says it
    struct parallel parallel;
    struct prediction prediction;
};

struct trials {
    struct trial *items;  // one a row, in the rows' order
    int count;
};

// Asks and answers every row; a row that cannot be expressed is an answer (why_not), not an error.
// `progress` may be NULL.
MUST_CHECK bool trials_run(struct arena *arena, const struct rows *rows, struct trials *trials,
                           void (*progress)(void *context, int done, int count), void *context,
                           struct err *err);

// The same plan at other constants: `device` and `stack` replace those of the trial's cluster and
// stack; the choices stay those of `trial->parallel`. Seconds of a step. Lowers the program on the
// first call and keeps it, so that a fit pays only for prices. `scratch` is reset.
struct trial_program;
struct trial_program *trial_program_new(struct arena *arena, const struct trial *trial);
double trial_program_step_s(struct trial_program *program, struct arena *scratch,
                            const struct device *device, const struct stack *stack,
                            const struct fabrics *fabrics);
