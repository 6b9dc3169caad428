#pragma once
#include "memory/order/order_division.h"

// A part of the ordering problem: units to run, and all that memory does while they run and nothing
// else does. Buffers that are touched by no unit here are part of `entry_bytes`.

struct order_touch {
    int buffer;
    int step;  // of the unit's steps, the last that touches it
};

struct order_local {
    int unit_count;
    int mandatory_count;  // units 0 .. mandatory_count - 1 have to run, the others may
    const int *units;     // numbers in the division
    int64_t entry_bytes;  // alive before any unit
    int64_t least_bytes;  // no order has a lower peak (of what any unit needs, without search)

    // By unit. A step is an operator of the unit.
    const int *first_step;
    const int64_t *made_bytes;     // [step] what is made and lives on behind the unit
    const int64_t *inside_bytes;   // [step] alive during the step, made and freed by the unit
    const int64_t *outcome_bytes;  // [unit] sum of made_bytes
    const int *first_touch;
    const struct order_touch *touches;  // buffers not made by the unit
    const int *indegree;                // [unit] units here that have to run before
    const int *first_successor, *successors;

    int buffer_count;
    const int64_t *buffer_bytes;
    const int *user_count;  // units that touch it, not counting the one that makes it
    const bool *stays;      // alive when all units have run
    const int *buffer;      // its number in the problem
    const int *producer;    // unit, or -1: alive at the entry
};

// Scratch tables over the whole problem that building reuses.
struct order_builder {
    const struct order_division *division;
    const int64_t *bytes;  // [buffer of the problem]; 0: as if it were not there
    int *unit_place;       // [unit of the division] its place here + 1
    int *buffer_place;     // [buffer of the problem] its place here + 1
};

struct order_builder order_builder_make(struct arena *arena, const struct order_division *division,
                                        const int64_t *bytes);
// Units `units` (of segments up to `segment`; every unit of these segments that is not among them
// has run already), of which the first `mandatory_count` have to run. `units` is kept. Lives in
// `arena`.
struct order_local *order_local_make(struct arena *arena, struct order_builder *builder,
                                     int segment, const int *units, int unit_count,
                                     int mandatory_count, int64_t entry_bytes);

// Whether two are the same problem but for entry_bytes and numbers in the division.
bool order_local_same(const struct order_local *a, const struct order_local *b);
uint64_t order_local_hash(const struct order_local *local);
