#pragma once
#include "memory/stage_block.h"

// The chunks of a stage: their blocks one by one, and what they are joined to. Included by
// memory/ alone.

// The chunk in front of another (direction -1) or behind it (1).
struct stage_neighbour {
    int chunk;  // on this stage; -1: on another
    bool exists;
};

struct stage_chunk {
    struct block_steps **blocks;  // by position
    int count;
    struct stage_neighbour front, behind;
};

// By chunk.
struct stage_chunk *stage_chunks_make(struct arena *arena, const struct program *program,
                                      int stage);
struct stage_neighbour stage_neighbour_of(const struct program *program, int stage, int chunk,
                                          int direction);
