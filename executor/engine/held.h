#pragma once
#include "executor/backend.h"
#include "plan/program.h"

// What a rank holds of a tensor under a layout: a box of the whole. Every change of layout is a
// matter of which boxes overlap.

struct held {
    int rank;  // dims
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX];
    int64_t elements;
};

struct held held_of(const struct program *program, const struct tensor *tensor,
                    const struct layout *layout, int rank);
// The same of a buffer of the block program.
struct held held_of_buffer(const struct program *program, const struct block_program *block,
                           int buffer, int rank);
struct held held_overlap(const struct held *a, const struct held *b);
bool held_equal(const struct held *a, const struct held *b);

// The copy of `part`, which lies in both, from one dense array to another: `from` holds the box
// `source`, `to` the box `target`.
struct box_copy held_copy(const struct held *part, const struct held *source, const void *from,
                          const struct held *target, void *to, enum element element,
                          int64_t element_bytes);
