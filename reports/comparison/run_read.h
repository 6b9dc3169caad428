#pragma once
#include "core/json.h"
#include "core/trace.h"
#include "simulator/evaluate.h"

// A run.json (executor/run.schema.json) as it is read back, to be set beside its plan.

struct measured_kind {
    const char *group, *kind;  // "task", "operator", "collective"; "F", "contract", "tp all-reduce"
    double predicted_count, count, predicted_s, measured_s;  // a step, all ranks together
    double predicted_bytes, measured_bytes;
};

struct measured_run {
    const char *path, *device, *backend, *transport;
    int rank_count;
    double *step_s;
    int step_count;
    double median_s;  // of the steps after the first
    double tokens_per_s, peak_bytes, predicted_peak_bytes;
    struct measured_kind *kinds;
    int kind_count;
    struct trace trace;     // of one step: spans alone
    double *traffic_bytes;  // [from * rank_count + to] a step; NULL: the file does not say it
};

// How run.json and checkpoints call a plan: by the text of its file. In the arena.
const char *run_plan_hash(struct arena *arena, const char *text);

// Reads the run of the plan whose file has this text, and which is this program. ERR_INPUT at its
// place, also where it is of another plan. `run` lives in `arena`.
MUST_CHECK bool measured_run_read(struct arena *arena, const char *path, const char *plan_text,
                                  const struct program *program, struct measured_run *run,
                                  struct err *err);
