#pragma once
#include "planner/bound.h"
#include "planner/memo.h"

// The commonest layer of a model where nothing is split, nothing is communicated and every kernel
// is as large as can be. On no mesh does it take less of all ranks together, nor do they keep less
// of it: so it bounds, by the time and the memory of one lowering each way to recompute, every plan
// before anything of its mesh is lowered.

struct saturated {
    struct bound_work
        sequence;           // of one sequence in one layer, recomputed as little as can be; zero
                            // where measured kernels leave no law that larger ones are faster
    double saved_bytes;     // that the layer keeps of it then
    double s_per_byte;      // no way to recompute frees bytes for less
    int way_count;          // each way to recompute: what is kept of a sequence, and what its
    struct saturated_way {  // backward needs beside that
        double saved_bytes, transient_bytes;
    } ways[SPACE_VALUE_MAX + 1];
    double transient_least_bytes;            // of any of them
    double dense_elements, expert_elements;  // of the layer
    double frozen_elements[2];
    double low_precision_elements;  // of them, what low-precision GEMMs read
};

// Of the ways to recompute that the space has, in the attention and tp degree of a graph.
struct saturated saturated_make(struct memo *memo, const struct space *space,
                                const struct bound_facts *facts, enum attention attention);

struct saturated_question {
    const struct search_request *request;
    const struct bound_facts *facts;
    const struct saturated *saturated;
    const struct space_mesh *mesh;
    const struct space_group *group;
    const struct space_tails *tails;
    int64_t limit_bytes;
};

// What the room of the devices costs a group, whatever the split of the layers over stages. A stage
// with many layers is slow, one with few leaves more to the others, and what has no room is
// recomputed.
struct saturated_room {
    double recompute_s;  // that one micro-batch takes longer on all stages together; INFINITY where
                         // there is no room however much is recomputed
    double stage_s;  // no less takes a micro-batch on the slowest stage, where each layer takes at
                     // least `layer_s` without anything recomputed
};
struct saturated_room saturated_room(const struct saturated_question *question, double layer_s);
// The layer's share of one micro-batch, all its repetitions.
struct bound_work saturated_work(const struct bound_facts *facts, const struct saturated *saturated,
                                 const struct space_mesh *mesh, int micro_batch);

// The step where every kernel is as large as can be, in this attention, on all ranks at once and
// with no communication: no plan at all is faster in it.
double saturated_step_s(struct memo *memo, const struct space *space, enum attention attention);
