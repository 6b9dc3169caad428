#pragma once
#include "plan/lower/lower.h"
#include "tests/support/index_sets.h"
#include "tests/support/random_graph.h"

// A random block on a random mesh of at most 16 ranks under random choices (degrees and their
// order, context kind, experts folded over the ranks, ZeRO, recompute), lowered.

struct random_case {
    struct parallel parallel;
    struct random_sizes sizes;
    struct mesh mesh;
    int64_t seq_len;
    double capacity_factor;  // 0: experts take all rows
    const struct block *block;
    struct differentiated facts;
    struct block_program *program;
};

// Everything lives in `arena`, but `drawn` itself must stay where it is.
void random_case_draw(struct arena *arena, struct draw *draw, struct random_case *drawn);
// The same of one block of a model, as far as its heads and experts divide.
void random_case_draw_model(struct arena *arena, struct draw *draw, const struct graph *graph,
                            struct random_case *drawn);
// A random layer, or a block, under these choices.
void random_case_draw_row(struct arena *arena, struct draw *draw, const struct parallel *parallel,
                          const struct block *block, int64_t seq_len, struct random_case *drawn);
// For the brute force on it.
struct sets_case random_case_sets(const struct random_case *drawn);
// TAP comments that say all of it.
void random_case_print(const struct random_case *drawn, int number);
