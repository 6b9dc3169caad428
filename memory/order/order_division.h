#pragma once
#include "memory/order/order.h"

// Where every order has to pass, and what may wait. The core is the operators that a longest path
// needs; the rest are side branches (a weight gradient with its update, an output of its own):
// nothing in the core waits for them. Cuts are at core operators that come before or after every
// other core operator.
//
// Operators are gathered into units, which run without anything between: a core operator alone; of
// a side branch what can be proven to lose nothing by running at once (order_branch.h), else an
// operator alone. Units are numbered by segment, those of the core first.

struct order_division {
    const struct memory_problem *problem;
    int segment_count, unit_count;
    const int *segment;     // [operator]; of a side branch: the first in which it can run
    const int *first_unit;  // [segment_count + 1]
    const int *core_count;  // [segment] units of the core
    const int *unit;        // [operator]
    const int *first_operator, *operators;           // of units, in the order in which they run
    const int *last_segment;                         // [buffer] of its users and producer
    const int64_t *relaxed_bytes;                    // [buffer] see order_branch.h
    const int64_t *base_bytes, *relaxed_base_bytes;  // [segment_count + 1] alive before a segment
                                                     // when all that could run before has run
};

// Lives in `arena`. Linear in the size of the problem. `anchor` (NULL: none): of operators of the
// core that are to run right before another, that one, else -1 (order_relax.h).
struct order_division *order_divide(struct arena *arena, struct arena *scratch,
                                    const struct memory_problem *problem, const int *anchor,
                                    bool no_segments, bool no_sides);
