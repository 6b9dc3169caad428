#pragma once
#include "memory/graph.h"

// In which order the operators of a graph run so that the most bytes alive at once are fewest.
// NP-hard; kept exact by division (ROAM, arXiv 2310.19295, does so with an ILP a segment):
//
// 1. Update branches (operators marked `update` that nothing but updates follows) are taken out.
// 2. What is left is cut at operators that every order runs at the same place: linear time, no
//    transitive closure. Segments between cuts do not act on each other's peak but through what is
//    alive across both; equal segments are solved once. Operators that could run long before they
//    are needed would leave next to no such place: bounds are those of a graph in which they moved,
//    and orders have them run right before they are needed.
// 3. A segment is solved exactly by best-first search over executed sets, with two forced moves
//    proven by exchange: a ready operator (or a chain that ends at its lowest level) that fits
//    under the threshold and leaves no more alive than before runs at once.
//    Before that, smallest cuts bound what is alive while a unit runs (order_cut.h): where graphs
//    are too wide for the search, what is proven is mostly theirs.
// 4. Update chains run as soon as they fit under the threshold, which rises by the least needed.
// 5. Where a cap on states is hit the best order found stands, with the threshold that was refuted
//    as proven bound.
// GLPK certifies segments of up to `certify_operators` operators (memory/certify.h).

struct order_options {
    double deadline_s;      // of clock_s(); 0 = none. Always an order, also when it has passed
    int64_t state_cap;      // executed sets a segment; 0 = the default. What makes results equal on
                            // every machine: only the deadline depends on the clock
    int certify_operators;  // 0 = none, at most 30
    int slack_least;        // what may run this many operators early stands in the way of no cut
                            // (order_relax.h); 0 = the default
    bool no_forced_moves, no_segments, no_update_branches;  // for tests: the same peak, slower
    void (*log)(void *context, const char *line);
    void *log_context;
};

struct order_result {
    int *order;           // operators by step
    int64_t peak_bytes;   // most bytes alive at once (aligned, persistent ones apart)
    int64_t bound_bytes;  // no order has a lower peak; never above peak_bytes
    int segment_count, distinct_count, largest_segment;
    int certified_count;  // distinct segments where GLPK agreed
    int disputed_count;   // where it did not: a bug, in the search or there
    int capped_count;     // distinct segments where the search ended at a cap
    int64_t state_count;
};

// Never worse than program order. The result lives in `arena`.
struct order_result order_solve(struct arena *arena, struct arena *scratch,
                                const struct memory_problem *problem,
                                const struct order_options *options);

// The order as it stands: 0, 1, 2, ...
int *order_program(struct arena *arena, const struct memory_problem *problem);
// A list scheduler without look-ahead: of the ready operators the one that leaves fewest bytes more
// alive, ties by program order (the rule of PyTorch Inductor's LPMF and of the heuristics that ROAM
// is compared with).
int *order_greedy(struct arena *arena, struct arena *scratch, const struct memory_problem *problem);
// The highest of the bounds that need no search: the bytes that an operator touches at once, what
// is there at the start, and what is kept at the end.
int64_t order_simple_bound(const struct memory_problem *problem);
