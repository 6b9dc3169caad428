#pragma once
#include "memory/graph.h"

#include "tests/support/draw.h"

// A small random problem of the order scheduler: edges follow the buffers and a few more stand
// alone; some buffers are kept, there from the start, or touched by nobody else. Sizes are
// multiples of `granule_bytes`.
struct memory_problem *random_problem(struct arena *arena, struct draw *draw, int operator_count,
                                      int64_t granule_bytes);

// The least peak over all orders, by dynamic programming over sets of operators that have run; at
// most 20 operators.
int64_t least_peak_bytes(struct arena *scratch, const struct memory_problem *problem);
