#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"
#include "validation/question.h"
#include "validation/rows.h"

// A row as the question that `plan` would be asked: a Hugging Face config, a cluster, pins for all
// that the row states. What it leaves open the search chooses, as for any user.

struct trial {
    const struct row *row;
    const struct model_config *model;
    const struct cluster *cluster;
    const struct stack *stack;  // as it runs the model (stack_for_model)
    bool has_experts;
    struct workload workload;
    struct pins pins;
    bool is_given;  // `parallel` is the plan that ran: nothing is searched
    // answered
    bool answered;
    const char *why_not;  // one line, as `plan` says it
    struct parallel parallel;
    struct prediction prediction;
};

struct trials {
    struct trial *items;  // one a row, in the rows' order
    int count;
    struct err fault;  // of the machine, while the rows were asked; none is answered then
};

// A row that cannot be expressed is an answer (why_not), not an error. Trials live in `arena`.
void trials_ask(struct arena *arena, const struct rows *rows, enum question_detail detail,
                struct trials *trials);
// Reads fabrics and bands and answers all of them; fails where those cannot be read, and with the
// trials' fault. `progress` may be NULL.
MUST_CHECK bool trials_answer(struct arena *arena, struct trials *trials,
                              void (*progress)(void *context, int done, int count), void *context,
                              struct err *err);
// Searches what the pins leave open and predicts the best plan, or the closest where none fits, as
// `plan` writes it. An earlier answer is replaced, so that a trial can be answered again with
// another cluster (of other devices) or stack. `bands` may be NULL.
void trial_answer(struct arena *arena, struct trial *trial, const struct fabrics *fabrics,
                  const struct bands *bands);

// The same plan at other constants: `device` and `stack` replace those of the trial's cluster and
// stack; the choices stay those of `trial->parallel`. The program is lowered by _new, so that a fit
// pays only for prices. Of an answered trial; lives in `arena`, which the seconds also use and give
// back. `scratch` is reset.
struct trial_program;
struct trial_program *trial_program_new(struct arena *arena, const struct trial *trial);
double trial_program_step_s(struct trial_program *program, struct arena *scratch,
                            const struct device *device, const struct stack *stack,
                            const struct fabrics *fabrics);
// The same in closed form: a third of the time, within a percent.
double trial_program_closed_form_s(struct trial_program *program, const struct device *device,
                                   const struct stack *stack, const struct fabrics *fabrics);
