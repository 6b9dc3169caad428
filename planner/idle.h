#pragma once
#include "planner/search.h"

// Awkward counts. A plan uses every GPU of its cluster, so that a number of GPUs which neither the
// batch nor the layers divide well is slower than a smaller one: with GPUs left idle the answer
// never gets slower by having more of them.
//
// The cluster with idle GPUs is the first N of the one asked for (cluster_take_gpus), and its
// idle_gpus says how many more are rented: what money is counted by, but not the work, the MFU or
// the tokens/s per GPU.

// The events may put a plan this much before its closed form (tests/simulator/test_closed_form.c
// holds it to 2 %): no count whose closed form is further behind can be the fastest.
static const double IDLE_EVENTS_RATIO = 0.98;
// A count is worth a word where it saves this much of the step.
static const double IDLE_HINT_RATIO = 0.01;

struct idle_answer {
    const struct cluster *cluster;  // of the best plan: the request's own when none stand idle
    double all_s;                   // step of the best plan that uses all GPUs; 0: there is none
    int searched_count;             // counts of GPUs that have plans and were searched
};

// The first `gpus` of a cluster, the others idle; in `arena`.
const struct cluster *idle_cluster(struct arena *arena, const struct cluster *cluster, int gpus);

// The fastest plan over all counts of GPUs up to the cluster's, of equal ones that with the most.
// Exact: a count is passed by only where every kernel at its best, or the closed form of its best
// plan, is slower than the best plan found. `result` is the search of that count; where no count
// has a plan, that of all GPUs, and its error. Objective time or cost.
MUST_CHECK bool idle_search(struct arena *arena, const struct search_request *request,
                            struct idle_answer *answer, struct search_result *result,
                            struct err *err);

// A smaller count that is faster than `best_s` (closed form; INFINITY: all GPUs have no plan that
// fits) by at least IDLE_HINT_RATIO, the fastest of those that are asked: the first two below among
// the next lower multiples of 1, 2, 4, ... GPUs and of the largest divisor of the batch, or that of
// a pinned layout. None is asked of a count that splits evenly: one that divides the batch, or,
// above 64 GPUs, whose part that does not divide it divides the GPUs of a node. It asks no more of
// each than whether it has a faster plan, so that it takes about as long as the search before it.
struct idle_hint {
    int gpus;       // 0: none
    double step_s;  // closed form
};
struct idle_hint idle_hint(const struct search_request *request, double best_s);
