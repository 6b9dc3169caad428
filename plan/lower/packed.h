#pragma once
#include "plan/lower/lower.h"

// Inside of lowering: buffers that hold the rows of several, one behind another (struct buffer,
// `packed`).

// What is seen in one part of a row, of `columns` elements: buffers that take each other's place.
enum { PACKED_SEEN_MAX = 4 };
struct packed_part {
    int buffers[PACKED_SEEN_MAX];
    int count;
    int64_t columns;
};

// Adds a packed buffer of these parts, and gives views of it to the instructions that read or write
// what is seen there; their inputs and outputs stay.
struct packed_room {
    int buffers, views;  // that the program's arrays in `arena` have room for
};
void packed_add(struct arena *arena, struct block_program *program, const struct packed_part *parts,
                int count, struct packed_room *room);
// Packed buffers in the place of what is seen of them; at the end.
void packed_finish(struct block_program *program);
