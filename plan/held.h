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
// The same of what an instruction reads or writes of it: in a relay one part (struct instr, rows).
struct held held_of_operand(const struct program *program, const struct block_program *block,
                            const struct instr *instr, int buffer, int rank);
// The ranks that differ from `rank` over these axes alone: the index-th of them, the innermost axis
// first; and the one so many before it (negative: behind it), round and round.
int held_rank_over(const struct mesh *mesh, unsigned axes, int index, int rank);
int held_rank_before(const struct mesh *mesh, unsigned axes, int count, int rank);
// In the group of a relay over these axes, the member that has of buffer `of` what `rank` has of
// `like`, another of the same tensor; -1.
int held_rank_with(const struct mesh *mesh, unsigned axes, const struct buffer *of,
                   const struct buffer *like, int rank);
// Of the ranks along its skew_axes those who get this part of a turn from another rank, or send it.
int held_moving(const struct mesh *mesh, const struct buffer *part);
// Turns that a pair of which this is a part takes; of another relay its ranks.
int held_turns(const struct mesh *mesh, const struct buffer *buffer);
struct held held_overlap(const struct held *a, const struct held *b);
bool held_equal(const struct held *a, const struct held *b);
