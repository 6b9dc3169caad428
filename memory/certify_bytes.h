#pragma once
#include "memory/graph.h"

// What the certifying programs know about bytes. Nothing here is shared with the searches, so that
// a fault of theirs is not repeated.

// Most bytes alive at once under an order.
int64_t certify_peak_bytes(struct arena *scratch, const struct memory_problem *problem,
                           const int *order);

// Bytes a unit of an integer program whose largest sum is `upper_bytes`: what divides all sizes, or
// where that leaves numbers too large for GLPK's tolerances, a millionth of the largest sum.
// `is_exact`: the former; every peak is then a whole number of units.
double certify_unit_bytes(const struct memory_problem *problem, int64_t upper_bytes,
                          bool *is_exact);

// A bound on peaks out of a bound that GLPK gives within its tolerances, rounded up to the next
// possible peak; never below `least_bytes`, which needs no solver.
int64_t certify_bound_bytes(const struct memory_problem *problem, double bound_bytes,
                            int64_t least_bytes);

// Most bytes that one operator touches: every order needs them.
int64_t certify_least_bytes(const struct memory_problem *problem);
