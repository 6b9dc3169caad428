#pragma once
#include "models/graph.h"
#include "plan/parallel.h"

// What a plan can hold and software plans for, and our executor does not run: a short table with
// why not. `run` refuses such a plan, whatever software it was made for, and the planner refuses it
// for the stacks of our executor, in the same words. What a back end lacks (a kernel, a precision)
// is its own to say.

struct unexecuted {
    const char *what;  // as on the command line
    const char *why;
    bool (*holds)(const struct workload *workload, const struct parallel *parallel);
    bool is_scripted;  // there are scripts of it nonetheless, which can be verified
};
// The rows; `count` of them.
const struct unexecuted *unexecuted_rows(int *count);
// The row that these hold; NULL: they are executed.
const struct unexecuted *unexecuted_of(const struct workload *workload,
                                       const struct parallel *parallel);
const char *unexecuted_text(struct arena *arena, const struct unexecuted *row);
// ERR_USAGE: "WHAT is not executed, because WHY".
MUST_CHECK bool unexecuted_check(const struct workload *workload, const struct parallel *parallel,
                                 struct err *err);
// The same of a model: some operators have kernels on CPUs alone, and some of imported graphs have
// none. `device` is the kind that a plan is for; NULL: a run, whose back end says what it lacks.
MUST_CHECK bool unexecuted_check_graph(const struct graph *graph, const char *device,
                                       struct err *err);
// And of the length of sequences: the table of positions of a model is as long as its file says.
// Other programs make a longer one when they are asked to.
MUST_CHECK bool unexecuted_check_positions(const struct graph *graph, int64_t seq_len,
                                           struct err *err);
