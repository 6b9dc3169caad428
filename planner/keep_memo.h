#pragma once
#include "memory/keep/keep.h"

// Programs that were asked before have their answers here: plans that differ in what the program
// does not see, as the order of their axes, ask the same.

struct keep_memo {
    struct arena *arena;
    struct keep_memo_entry *entries;
    int count, capacity;
};

// As keep_solve; `options` are the same in every call.
struct keep_result keep_memo_solve(struct keep_memo *memo, struct arena *scratch,
                                   const struct keep_problem *problem,
                                   const struct milp_options *options);
