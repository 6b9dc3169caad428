#pragma once
#include "simulator/evaluate.h"

// The published runs that are nearest to a plan, measured beside predicted: what this program says
// of runs whose outcome is known. They are read from tests/validation/published.jsonl, which `make`
// lays beside the other data; where it is not there, there are none.

struct published_run {
    const char *id, *model, *source;
    const char *device, *stack;
    int gpus;
    int64_t seq_len, global_batch;
    enum precision precision;
    double measured_s, predicted_s;  // a step
};

enum { PUBLISHED_MAX = 3 };

struct published {
    struct published_run runs[PUBLISHED_MAX];  // the nearest first
    int count;
};

// Nearest by kind of model, device, stack, size of the model, GPUs and sequence length; of runs
// that differ in their layout alone only one. Each is predicted as `validate` would. Lives in
// `arena`. False with ERR_INPUT where the file is wrong.
MUST_CHECK bool published_find(struct arena *arena, const struct evaluation_request *request,
                               const struct evaluation *evaluation, struct published *published,
                               struct err *err);
