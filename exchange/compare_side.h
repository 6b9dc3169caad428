#pragma once
#include "core/json.h"

// One side of a comparison: one file, or several runs of the same. What is in a file is told by
// what it holds: a plan (plan.json), a run (run.json), or a trace of `simulate --trace`,
// `run --trace`, PyTorch's profiler or Nsight Systems.

enum side_kind { SIDE_PLAN, SIDE_RUN, SIDE_TRACE, SIDE_LOG };
const char *side_kind_name(enum side_kind kind);  // "plan", "run", "trace", "log"

// What a step's seconds go to; seconds, counts and bytes are of one step. Of plans parts of the
// step, of runs and traces tasks of all ranks together.
struct side_task {
    const char *name, *kind;
    double count, bytes, s;
};

// A choice of a plan as text ("tp", "8"), or what a run ran on.
struct side_choice {
    const char *key, *value;
};

struct side_file {
    const char *path;
    enum side_kind kind;
    double *step_s;  // of a run without the first step where it has more; of a plan one
    int step_count, step_capacity;
    double tokens_per_step;  // 0: not said
    double peak_bytes;       // of the rank with most; 0: not said
    struct side_task *tasks;
    int task_count, task_capacity;
    struct side_choice *choices;
    int choice_count, choice_capacity;
};

// What the first bytes of a file say: JSON of ours, a trace, or lines of a log. ERR_INPUT where it
// cannot be read.
MUST_CHECK bool side_kind_of(struct arena *arena, const char *path, enum side_kind *kind,
                             struct err *err);

// Reads a plan, a run or a trace. ERR_INPUT at its place; ERR_USAGE for a log, which says nothing
// of tasks. `steps_told`: how many steps a trace holds, evenly over its time; 0: as it says.
MUST_CHECK bool side_read(struct arena *arena, const char *path, int steps_told,
                          struct side_file *file, struct err *err);

// exchange/trace_side.c: a trace as a side; and by kinds (exchange/trace_kinds.h) in place of
// names.
MUST_CHECK bool side_read_trace(struct arena *arena, const char *path, int steps_told,
                                struct side_file *file, struct err *err);
MUST_CHECK bool side_read_kinds(struct arena *arena, const char *path, int steps_told,
                                struct side_file *file, struct err *err);
