#pragma once
#include "cli/price_options.h"
#include "cli/reliability_options.h"
#include "core/err.h"
#include "plan/plan.h"
#include "simulator/evaluate.h"

// A plan file as the question that it answers: what the commands that read one evaluate.

// Fills the request from the file: model, cluster, workload, choices, its own stack, and the
// shipped fabrics and bands. `kernels`: see inquiry_kernels. NULL and a set `err` where something
// is wrong. All of it lives in `arena`.
MUST_CHECK const struct plan *plan_question(struct arena *arena, const char *path,
                                            const char *kernels, struct evaluation_request *request,
                                            struct err *err);

// What the command line says of the run, in place of what the plan says; 0 tokens: nothing.
MUST_CHECK bool plan_override(struct arena *arena, double tokens,
                              const struct reliability_arguments *reliability,
                              const struct price_arguments *price,
                              struct evaluation_request *request, struct err *err);

// The exit status when the question has no answer: what a plan file says and cannot be is a wrong
// file, not a wrong command line.
int plan_question_status(const char *path, struct err *err);
