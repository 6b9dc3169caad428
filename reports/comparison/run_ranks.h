#pragma once
#include "simulator/evaluate.h"

// What each rank did in the traced step, and which chain of tasks made the step as long as it was.

struct rank_times {
    int rank, stage;
    // They add up to the step. Communication inside a task is an exchange, because compute waits
    // for it; communication beside compute is none.
    double compute_s, exchange_s, wait_s;
    double predicted_compute_s;     // of any rank of its stage
    double stream_s[STREAM_COUNT];  // in which each of its streams was busy
    double behind_ratio;            // compute_s over the median of its stage's ranks, - 1
    double path_s;                  // of the critical path
};

// Seconds of the critical path by what was done in them.
struct path_part {
    const char *what;  // "forward", "tp in backward", "reduce gradients", "waiting"
    double s;
};

enum { PATH_PARTS_MAX = 64 };

struct run_ranks {
    double step_s;             // of the trace: its last end
    struct rank_times *ranks;  // that are in it, the furthest behind first
    int rank_count;
    struct path_part parts[PATH_PARTS_MAX];  // the longest first; they add up to the step
    int part_count;
};

// Of a measured trace of this evaluation, which has its own trace. Lives in `arena`; no ranks where
// the trace is empty.
struct run_ranks run_ranks_make(struct arena *arena, struct arena *scratch,
                                const struct evaluation_request *request,
                                const struct evaluation *evaluation, const struct trace *trace);

// reports/comparison/run_path.c: the same trace walked back from its last end. A task begins when
// the task before it on its rank ends, an exchange when the last of its group comes to it, a
// received message when it is sent: the path goes on there. Adds to path_s of `ranks` ([rank] its
// times, NULL: not in the trace) and to the parts.
void run_path_walk(struct arena *scratch, const struct program *program, const struct trace *trace,
                   struct rank_times *const *ranks, struct run_ranks *result);
