#pragma once
#include "plan/program.h"

// What a rank holds of a tensor under a layout: a box of the whole. Every change of layout is a
// matter of which boxes overlap.

struct held {
    int rank;  // dims
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX];
    int64_t elements;
};

// Of a rank of a stage that sees the program so (program_at).
struct held held_of(const struct program *program, const struct tensor *tensor,
                    const struct layout *layout, int rank);
// The same of a buffer of the block program.
struct held held_of_buffer(const struct program *program, const struct block_program *block,
                           int buffer, int rank);
struct held held_overlap(const struct held *a, const struct held *b);
bool held_equal(const struct held *a, const struct held *b);
