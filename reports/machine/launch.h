#pragma once
#include "cost_models/stack.h"

// How the plan's software is told to run it: the flags of the stack for what the plan chooses.

struct launch_flags {
    const char **items;  // "--pipeline-model-parallel-size 4"; of one flag all its words together
    int count;
};

// In a fixed order. Choices that the stack does by itself, and those that it has no flag for, are
// left out. Lives in `arena`.
struct launch_flags launch_flags(struct arena *arena, const struct stack *stack,
                                 const struct parallel *parallel, const struct workload *workload);
// The same in one line; "" where the stack names no flags.
const char *launch_text(struct arena *arena, const struct stack *stack,
                        const struct parallel *parallel, const struct workload *workload);
