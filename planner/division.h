#pragma once
#include "plan/program.h"
#include "plan/stays.h"
#include "planner/index.h"

// How the blocks of a model are divided over stages and chunks, as counts: what a chunk costs does
// not depend on the order of its blocks. Chunks with equal counts are one class. The same for every
// micro-batch and ZeRO stage, so one division serves many plans. Only where gradients go bucket by
// bucket, which are of whole blocks in order, and kinds of blocks take turns, and where parameters
// stay between two uses, equal classes have equal blocks in order.

enum { DIVISION_KIND_MAX = 32 };  // distinct blocks of a model

// Of each kind of block there are as many as ways: kept or recomputed, and how long its parameters
// stay where those of the plan leave.
enum { DIVISION_WAYS = 2 * STAYS_COUNT };
static inline int division_block(int kind, bool recomputed, enum stays stays)
{
    return DIVISION_WAYS * kind + 2 * (int)stays + recomputed;
}
static inline int division_kind(int block)
{
    return block / DIVISION_WAYS;
}
static inline bool division_recomputes(int block)
{
    return block % 2;
}
static inline enum stays division_stays(int block)
{
    return (enum stays)(block % DIVISION_WAYS / 2);
}

// What is done with the activations and the states of a layer. All follow from its place in the
// stage, "of the first N", so that a plan has few of them: one more than it has different N.
struct division_band {
    bool recomputed;
    unsigned moved;    // mask of 1 << enum op_class
    unsigned away;     // see struct block_use
    enum stays stays;  // its parameters, where those of the plan leave
};
enum { DIVISION_BAND_MAX = OFFLOAD_CLASS_MAX + 11 };

struct division {
    int stage_count, chunk_count;
    int class_count, kind_count;
    struct division_band bands[DIVISION_BAND_MAX];  // the first two: kept, and recomputed
    int band_count;
    // The classes as a program says them, in blocks of division_block; of each a use for each mask
    // of what is moved, and for states that leave.
    struct program_chunk *chunks;
    int *class_of;  // [stage * chunk_count + chunk]
    const struct stage_runs *runs;
    // The same division with nothing recomputed and no activations moved, and for each class the
    // class of the same blocks there: what happens once a step depends on neither. Itself when
    // nothing is.
    const struct division *base;
    const int *base_class;
    int *stage_layers;  // layers of each stage
    int layers_most;    // of them
    // Stages whose memory can be the largest where W follows B: of each row of equal stages the
    // first, which has the most micro-batches in flight, and the last stage.
    int *heads;
    int head_count;
};

// Divisions made so far. Starts as {.arena = arena, .streams = ...}; holds those of one model.
struct divisions {
    struct arena *arena;
    bool streams;  // buckets of gradients are updated as they come (plan/step_end.h)
    struct index index;
    struct division_class *classes;  // room to make one in
    int class_capacity;
};

// `layers` is the number of layers of each stage that are recomputed, -1 = all, 0 = none. The plan
// must be legal. Of `parallel` only pp, vpp, the stage layers, what activations and of which layers
// states are moved and where the schedule places chunks count; an array of stage layers is known by
// its address. Lives as long as the arena.
const struct division *division_get(struct divisions *divisions, const struct graph *graph,
                                    const struct parallel *parallel, int layers);
