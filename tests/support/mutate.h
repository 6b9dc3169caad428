#pragma once
#include "tests/support/draw.h"
#include "tests/support/random_case.h"

// Wrong programs from right ones: one collective of a lowered block is changed, and whoever judges
// programs must see it.

enum mutation {
    MUTATION_REMOVE,  // its readers read what it would have changed
    MUTATION_DOUBLE,  // a reduction once more
    MUTATION_AXES,    // an axis more, or less
    MUTATION_DIM,     // along another dim of the tensor; an all-to-all the other way round
    MUTATION_COUNT
};
const char *mutation_name(enum mutation mutation);

// The program with instruction `at`, a collective, changed; NULL where there is nothing to change:
// a gather done twice is harmless, one axis has no other. Lifetimes are opened, so that only the
// data can tell. Lives in `arena` and shares with `program` what did not change.
struct block_program *mutate(struct arena *arena, struct draw *draw, const struct mesh *mesh,
                             const struct block_program *program, int at, enum mutation mutation);
