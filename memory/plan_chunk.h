#pragma once
#include "cost_models/stack.h"
#include "plan/program.h"

// The chunks in which the gradients of a stage go to a host that updates, and its parameters come
// back: see keep_chunk_bytes, asked with the range that Gemini takes by default (from 32 Mi
// elements to as many more, in steps of the hidden size; colossalai/booster/plugin/
// gemini_plugin.py). What a plan's step is priced with is the bucket of its stack
// (cost_models/offload.h).

struct plan_chunk {
    int64_t chunk_bytes;  // of gradients, before they are scattered
    int64_t wasted_bytes, tensor_bytes;
    int tensor_count;
};
struct plan_chunk plan_chunk_of(struct arena *scratch, const struct program *program,
                                const struct stack *stack, int stage);
