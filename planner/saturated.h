#pragma once
#include "cost_models/offload.h"
#include "planner/bound.h"
#include "planner/memo.h"
#include "planner/spared.h"

// The commonest layer of a model where nothing is split, nothing is communicated and every kernel
// is as large as can be. On no mesh does it take less of all ranks together, nor do they keep less
// of it: so it bounds, by the time and the memory of one lowering each way to recompute, every plan
// before anything of its mesh is lowered.

struct saturated {
    struct bound_work
        sequence;  // of one sequence in one layer, recomputed as little as can be; zero
                   // where measured kernels leave no law that larger ones are faster
    struct copy_window window;  // what it computes of it beside copies
    double saved_bytes;         // that the layer keeps of it then
    double s_per_byte;          // no way to recompute frees bytes for less
    int way_count;              // each way to recompute: what is kept of a sequence, and what its
    struct saturated_way {      // backward needs beside that
        int value;              // recompute_value
        double saved_bytes, transient_bytes;
        double more_s;       // that it takes longer than the fastest; 0 where measured kernels say
        double moved_bytes;  // of what is kept, what can leave the device
    } ways[SPACE_VALUE_MAX + 1];
    double transient_least_bytes;            // of any of them
    double linear_elements;                  // of the layer, that low-precision GEMMs may read
    double dense_elements, expert_elements;  // of all of it
    double frozen_elements[2];
};

// Of the ways to recompute that the space has, in the attention and tp degree of a graph; of layers
// of one kind, without its elements, and of the commonest.
struct saturated saturated_of_kind(struct memo *memo, const struct space *space, int kind,
                                   enum attention attention);
struct saturated saturated_make(struct memo *memo, const struct space *space,
                                const struct bound_facts *facts, enum attention attention);

// The link that layers of the mesh may leave the device over, and what each computes of a
// micro-batch meanwhile with nothing recomputed.
struct saturated_copies {
    double bytes_per_s;
    struct copy_window window;
    double hideable_s;  // what such a layer waits for that more compute may hide
};

// What it spares to recompute a layer of which a rank has such a share of a sequence, keeps so many
// bytes, and waits so long for what more compute may hide; and to move it as well (`copies` NULL:
// not). No ways of a real mesh spare as much for as little. planner/saturated_room.c
struct saturated_layer {
    const struct saturated *saturated;
    double share, kept_bytes, hideable_s;
    const struct saturated_copies *copies;
    const int *values;  // ways that it may be recomputed in (recompute_value); NULL: any
    int value_count;
};
void saturated_spared(const struct saturated_layer *layer, struct spared_hull *hull);
// How much longer it takes recomputed so (recompute_value) than with everything kept, at least.
double saturated_more_s(const struct saturated_layer *layer, int value);

struct saturated_question {
    const struct search_request *request;
    const struct bound_facts *facts;
    const struct saturated *saturated;
    const struct space_mesh *mesh;
    const struct space_group *group;
    const struct space_tails *tails;
    int64_t limit_bytes;
    const struct saturated_copies *copies;  // NULL: nobody asks what moving layers costs, which is
                                            // nothing where any plan of the group does
};

// What the room of the devices costs a group, whatever the split of the layers over stages. A stage
// with many layers is slow, one with few leaves more to the others, and what has no room is
// recomputed, or moved.
struct saturated_room {
    double recompute_s;  // that one micro-batch takes longer on all stages together; INFINITY where
                         // there is no room however much is recomputed
    double stage_s;  // no less takes a micro-batch on the slowest stage, where each layer takes at
                     // least `layer_s` with everything kept
};
struct saturated_room saturated_room(const struct saturated_question *question, double layer_s);

// The layer's share of one micro-batch, all its repetitions.
struct bound_work saturated_work(const struct bound_facts *facts, const struct saturated *saturated,
                                 const struct space_mesh *mesh, int micro_batch);

// The step where every kernel is as large as can be, in this attention, on all ranks at once and
// with no communication: no plan at all is faster in it.
double saturated_step_s(struct memo *memo, const struct space *space, enum attention attention);
