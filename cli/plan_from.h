#pragma once
#include "cli/plan_options.h"
#include "exchange/import.h"

// `plan --from FILE CLUSTER`: what another program's run does, and beside it what would be better.

struct plan_from {
    const char *path;  // NULL: not asked
    const struct imported *imported;
    const char *why;                    // it cannot be run there; NULL: it can
    const struct candidate *candidate;  // the run, of `why` NULL
    bool fits;
    const char *unpriced;  // overlap that it has and its stack does not; NULL: none
};

// The rows of the command without MODEL, which the file says.
void plan_from_options(struct option *options, int *count);
// Whether `--from` is among the arguments.
bool plan_from_is_asked(int argc, char **argv);

// Reads the file; model, workload and stack that the command line does not give become its own.
MUST_CHECK bool plan_from_read(struct arena *arena, struct plan_from *from,
                               struct plan_arguments *arguments, struct err *err);
// The run of the file as it is, on the request's cluster. What is wrong with it there is an answer.
MUST_CHECK bool plan_from_search(struct arena *arena, struct plan_from *from,
                                 const struct search_request *request, struct err *err);
// What goes above the table, and below it where there is a best plan.
const char *plan_from_head(struct arena *arena, const struct plan_from *from);
const char *plan_from_foot(struct arena *arena, const struct plan_from *from,
                           const struct search_request *request,
                           const struct search_result *result);
