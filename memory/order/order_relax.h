#pragma once
#include "memory/order/order_division.h"

// Operators of the core that could run long before anything needs what they make (a transposition
// that only backward reads, a mask) stand in the way of cuts. Let a be one, b the first that needs
// it, and let it make no less than it may free. A graph in which a does nothing, b reads what a
// reads and makes what a makes less that, holds no more at any time under any order: before a it
// is the same, from a to b it holds what a reads instead of what a makes, at b the same. So its
// bounds are bounds. As an order for the graph itself a is put right before b.

struct order_relaxed {
    const struct memory_problem *problem;  // with the same operators and edges
    const int *anchor;                     // [operator] b, or -1
    int count;                             // of operators that were moved
};

// Moves operators of the core that may wait for at least `slack` others on a longest path. Lives in
// `arena`.
struct order_relaxed order_relax(struct arena *arena, struct arena *scratch,
                                 const struct order_division *division, int slack);
