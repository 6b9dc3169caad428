#pragma once
#include "planner/partition.h"

// Splits of the layers over stages that are faster than the even one. Plans name a split by its
// address, so equal ones are kept once.

enum { BALANCE_MAX = 4096 };

// Starts as {.arena = arena}.
struct balances {
    struct arena *arena;
    const int *known[BALANCE_MAX];  // with the number of stages first
    int count;
};

// The layers of each stage in the fastest split, in the arena; NULL when `even` is as fast.
const int *balance_find(struct balances *balances, struct arena *scratch,
                        const struct partition_request *request, const int *even);
