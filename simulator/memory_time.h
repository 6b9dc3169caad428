#pragma once
#include "core/trace.h"
#include "cost_models/memory.h"

// What is alive on a GPU of a stage over the time of a step: what stands (weights, gradients,
// optimizer, buffers), what each micro-batch leaves between its forward and its backward, and the
// working memory of the task that runs. The highest point is what the memory model says of the
// stage.

struct memory_time {
    struct trace_level *list;  // by time; the first is what stands, at 0
    int count;
};

// Of one rank of a trace of the program, which is of this stage. At one moment there may be several
// levels: what goes, and what comes in its place. Lives in `arena`.
struct memory_time memory_time(struct arena *arena, const struct program *program,
                               const struct stack *stack, const struct trace *trace, int rank,
                               int stage);
