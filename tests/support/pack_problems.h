#pragma once
#include "memory/pack/pack.h"
#include "tests/support/draw.h"

// Packing problems whose answer is known to be yes: rectangles of time and addresses cut into
// pieces and shuffled, and variants of problems with a known packing. They live in `arena`.

struct cut {
    int count;             // buffers, about
    int sections;          // instants that cuts keep to
    int64_t height;        // a multiple of `quantum`
    int64_t quantum;       // of sizes
    int pinwheel_percent;  // cuts into five pieces, which no straight cut separates
    int loose_percent;     // pieces that lose some of their size or life afterwards
};
// Fits under cut->height; with nothing loose no hole is left.
struct pack_problem problem_cut(struct arena *arena, struct draw *draw, const struct cut *cut);

// The same packing problem with time reversed, buffers in another order.
struct pack_problem problem_mirrored(struct arena *arena, struct draw *draw,
                                     const struct pack_problem *problem);
// `count` buffers cut in two, in time (at a middle instant) or in size: still fits where it did.
struct pack_problem problem_split(struct arena *arena, struct draw *draw,
                                  const struct pack_problem *problem, int count, int64_t quantum);
// With a packing under `height`: lives that grow into free space, `percent` of the buffers tried.
struct pack_problem problem_grown(struct arena *arena, struct draw *draw,
                                  const struct pack_problem *problem, const int64_t *offsets,
                                  int percent);
// `percent` of the buffers lose about a tenth of their size.
struct pack_problem problem_loosened(struct arena *arena, struct draw *draw,
                                     const struct pack_problem *problem, int percent,
                                     int64_t quantum);
// Two packed problems one after the other; what dies at the end of the first and is born at the
// start of the second is one buffer as far as their addresses are the same.
struct pack_problem problem_joined(struct arena *arena, struct draw *draw,
                                   const struct pack_problem *a, const int64_t *a_offsets,
                                   const struct pack_problem *b, const int64_t *b_offsets);
