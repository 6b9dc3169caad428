#pragma once
#include "memory/schedule.h"

// Recompute and spill on any graph: where a schedule of all its tensors does not fit, some are
// given up between two uses and made again, or copied to the host and back, so that the arena fits,
// at least cost. MODeL (Steiner et al., arXiv 2210.12924) spills in one integer program with the
// order; here the order comes first (order.h), then
//
// 1. candidates under that order: a storage between two of its uses, moved; or a chain of 1, 2, 4
//    .. operators made again right before the next use, all of whose results are given up until
//    then and there again from then on (so that checkpoints with segments between them are one
//    candidate);
// 2. the cheapest choice that is below the capacity at every step: greedily, and up to a number of
//    candidates by an integer program (GLPK), whose relaxation bounds the cost under this order;
// 3. the graph with copies and repeated operators, whose order and addresses are found anew. Where
//    they need more than the capacity, the next round aims as much lower.
//
// Storages that are overwritten in place, kept to the end, or persistent stay where they are, and
// updates are never repeated. A repeated operator reads what it read at first: its inputs must be
// there, and not yet overwritten.

struct spill_request {
    const struct memory_graph *graph;
    const struct memory_options *options;  // alignment; capacity > 0
    bool may_recompute, may_move;
    const double *operator_s;  // [operator]; of may_recompute. Below 0: not known, never repeated
    double move_bytes_per_s;   // of the link to the host, each way; of may_move
    double move_start_s;       // of each copy, before its bytes flow
};

// What was given up. All times are those of one copy or operator after the other: nothing overlaps.
struct spill_result {
    struct memory_graph *graph;  // with copies and repeated operators
    const struct memory_problem *problem;
    struct memory_schedule schedule;  // of that graph
    const int *operator_origin;       // [operator of `graph`]: of the request's; -1: a copy
    const int *tensor_origin;         // [tensor of `graph`]: whose value it has
    int repeated_count, moved_count;  // operators, storages
    double repeated_s;
    int64_t out_bytes, in_bytes;  // to the host and back
    int copy_count;
    double cost_s;
    double bound_s;  // no choice of these candidates under this order costs less; 0: not known
    int round_count;
    int64_t kept_bytes;  // arena with everything kept
};

// False with ERR_SYSTEM where the independent check finds fault: a bug. Whether it fits is
// `schedule.fits`; where it does not, the choice is the one that needs least of those tried.
MUST_CHECK bool spill_graph(struct arena *arena, struct arena *scratch,
                            const struct spill_request *request, struct spill_result *result,
                            struct err *err);
