#pragma once
#include "memory/spill/spill.h"

// The steps of spill.c. Steps are those of the base order; storages are named by their root tensor.

// Bytes of a storage that are free from step `first` to the one before `last`.
struct spill_freed {
    int storage, first, last;
};
struct spill_candidate {
    const struct spill_freed *freed;
    int freed_count;
    int step;          // before which it is there again: `last` of all that is freed
    const int *again;  // operators to repeat then, in the base order; none: it is moved
    int again_count;
    const int *needs;  // storages that must be there at `step`, ascending
    int need_count;
    int64_t extra_bytes;  // that only the repeating needs, at `step`
    double cost_s;
};

struct spill_space {
    const struct memory_graph *graph;
    const struct memory_problem *problem;
    const int *order, *step_of;  // [step], [operator]
    const int *birth, *death;    // [buffer], as memory_lifetimes says
    int64_t *load;               // [step] bytes alive
    int step_count;
    struct spill_candidate *candidates;
    int count;
};
// spill_candidates.c. `request->may_...` say which.
struct spill_space spill_space_make(struct arena *arena, const struct spill_request *request,
                                    const struct memory_problem *problem, const int *order);

// spill_choose.c: which to take so that no step has more than `capacity` bytes. Returns the most
// bytes of any step then; above `capacity` where none that is left lowers it. `bound_s`: see
// spill_result.
int64_t spill_choose(struct arena *arena, const struct spill_space *space, int64_t capacity,
                     const struct memory_options *options, bool *taken, double *bound_s);

// The lowest that the highest step was brought to, where `low` is out of reach. `taken` is scratch.
int64_t spill_lowest(struct arena *arena, const struct spill_space *space, int64_t low,
                     bool *taken);

// spill_make.c: the graph with what is taken. Fills graph and origins of the result, and counts.
MUST_CHECK bool spill_make(struct arena *arena, const struct spill_request *request,
                           const struct spill_space *space, const bool *taken,
                           struct spill_result *result, struct err *err);

// check_spill.c: whether the graph computes what it did. `why`: what is wrong, in one line.
MUST_CHECK bool check_spill(struct arena *scratch, const struct spill_request *request,
                            const struct spill_result *result, const char **why);
