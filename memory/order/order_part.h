#pragma once
#include "memory/order/order_search.h"

// Segments solved by themselves, each with all that can run in it run at its end. Equal ones are
// solved once.

struct order_part {
    const struct order_local *local;
    int *units;           // of the local problem, in the best order found
    int64_t peak_bytes;   // above what is alive at the entry of the segment
    int64_t bound_bytes;  // no order of all its units is lower
    int64_t state_count;
    bool capped;
};

struct order_parts {
    struct order_part *parts;
    int count, largest;     // largest: operators of a segment
    const int *of_segment;  // [segment]
};

struct order_limits {
    int64_t state_cap;  // of one search; 0 = what takes tenths of a second
    double deadline_s;  // 0 = none
    bool no_forced_moves;
};

// Lives in `arena`.
int64_t order_state_cap(const struct order_limits *limits, int unit_count);
struct order_parts order_parts_solve(struct arena *arena, struct arena *scratch,
                                     const struct order_division *division,
                                     const struct order_limits *limits);
