#pragma once
#include "cost_models/band.h"
#include "planner/search.h"

// The software that a plan is for where nobody names it: of the shipped stacks that can train the
// model in the precision asked for, the one with most measured runs on the devices of the clusters,
// because its predictions are known best. Where none of these devices was ever measured, the runs
// of the nearest device count: of one kind, and fewest times apart in 16-bit peak and memory
// bandwidth. Ties go to more runs in all, then to the name. Pins have no say: they narrow what is
// searched, so that no pin finds a plan that the answer without it should have been. Those of what
// no search tries by itself (a grid of tp, shard groups of their own) take a stack that has it.

struct default_stack_question {
    const struct cluster *const *clusters;  // one stack for all of them
    int cluster_count;
    enum precision precision;
    bool has_experts;         // a stack has to split over them
    bool is_video;            // or to know models of two sequence dims
    bool is_unexecuted;       // our back ends have no kernels for it on these devices
    const struct pins *pins;  // what is pinned has to be among the abilities of the stack
    const struct bands *bands;
};

struct default_stack {
    const struct stack *stack;
    const char *why;  // "157 measured runs on a100-sxm4-80g", "no measured run on a800-sxm4-80g,
                      // 157 on the nearest device, a100-sxm4-80g"; and of a stack with more runs
                      // why it is passed over
};

// False and a set `err` where a data file is wrong, no stack is for devices of this kind, or the
// stack lacks what is pinned and another has it, which the error names. Where no stack can run what
// is asked, the one with most runs is taken, and the search says what it lacks. Lives in `arena`.
MUST_CHECK bool default_stack_find(struct arena *arena,
                                   const struct default_stack_question *question,
                                   struct default_stack *found, struct err *err);
