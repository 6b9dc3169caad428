#pragma once
#include "memory/order/order_cursor.h"

// Exact search of a part: over sets of units that have run, depth first among those that can be
// reached under a threshold, which rises to the least that was in the way when they are used up.
// So every threshold passed is refuted, and the first order found is the best.

// Exits kept; where there are as many there may be more.
enum { ORDER_EXITS_MAX = 64 };

struct order_search_options {
    int64_t start_bytes;  // first threshold: a bound known to hold, or the only one of interest
    int64_t limit_bytes;  // not above; INT64_MAX = as high as needed
    int64_t state_cap;
    double deadline_s;  // 0 = none
    bool no_forced_moves;
    bool all_exits;  // of optional units: go on after the first exit that leaves some waiting
};

struct order_exit {
    const uint64_t *done;  // units that have run, the mandatory ones among them
    int place;             // in the path
    int64_t level_bytes;
};

struct order_search_result {
    struct order_exit *exits;  // none: refuted, or given up
    int exit_count;
    int64_t threshold_bytes;  // no order is lower (exact when an exit was found from a start that
                              // is a bound); of a refuted limit the next that may do
    int64_t blocked_bytes;    // lowest peak of a move that a threshold forbade; INT64_MAX: none
    bool capped;              // by states or time: what the threshold refutes holds nevertheless
    int64_t state_count;
    struct order_path path;
};

// Lives in `arena`, which also holds the states.
struct order_search_result order_search(struct arena *arena, const struct order_local *local,
                                        const struct order_search_options *options);

// Without proof: layer by layer, the sets with the lowest level that stay under `limit_bytes`, as
// many as `width`. Writes all units of an order to `units` and returns true, or returns false.
bool order_beam(struct arena *scratch, const struct order_local *local, int64_t limit_bytes,
                int width, int *units);

// The most bytes alive while the units run in this order.
int64_t order_local_peak(struct arena *scratch, const struct order_local *local, const int *units);
