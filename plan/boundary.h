#pragma once
#include "plan/held.h"

// What crosses from one stage to the next where their meshes are unlike (struct parallel, stage_tp,
// stage_ranks). Both ends hold boxes of one tensor; a rank is sent what its box has in common with
// those of the other stage. Of ranks that hold the same the one sends whose places on the axes over
// which it is whole are those of the receiver, so that every element of a box comes once, from a
// rank that has it. Where the meshes are alike that is one piece, the whole box, from the rank in
// the same place. Of stages with unlike numbers of ranks the receiver's place is its number in its
// stage modulo the sender's ranks; where the sender has more, and holds the same on them, those
// behind send nothing. Else all ranks send alike.

struct boundary_end {
    int stage, block, buffer;  // buffer: of the block program
};

struct boundary {
    const struct program *program;
    struct boundary_end from, to;
};

struct boundary_piece {
    int peer;          // rank
    struct held part;  // in places of the whole tensor
};

// A message: from one chunk to the next of them, or of gradients to the one before.
struct boundary_message {
    int from_stage, from_chunk, to_stage, to_chunk;
    bool is_backward;
};

// The n-th message that a chunk sends or gets in a forward or a backward slot, of those it gets for
// different inputs that for the first ones first. False: there is none, as within a stage.
bool boundary_message(const struct program *program, int stage, int chunk, bool sends,
                      bool is_backward, int n, struct boundary_message *message);
// Tensor `edge` of a message: outputs to inputs, or gradients of inputs to those of outputs,
// counted from the first that the two share. False: there is none.
bool boundary_of(const struct program *program, const struct boundary_message *message, int edge,
                 struct boundary *boundary);
// Whether every rank hands its box to the rank in its place.
bool boundary_is_plain(const struct boundary *boundary);
// What the rank sends, or gets, by peers ascending. Lives in `arena`.
int boundary_pieces(struct arena *arena, const struct boundary *boundary, int rank, bool sends,
                    struct boundary_piece **pieces);

// What chunks of a class hand on: output `edge` of the first of them, or the gradient of input
// `edge`, to whoever gets it.
bool boundary_of_class(const struct program *program, const struct program_chunk *chunk,
                       bool is_backward, int edge, struct boundary *boundary);
// Its tensors.
int boundary_tensor_count(const struct program *program, const struct boundary_message *message);
// Bytes of an element.
int64_t boundary_element_bytes(const struct boundary *boundary);
// Elements that the mean rank sends over those of the box that it holds: 1 where meshes are alike.
double boundary_sent_ratio(const struct boundary *boundary);

// All tensors of one message: the bytes and pieces that a rank sends or gets, of the two the more;
// of the rank that has most of them.
struct boundary_sum {
    int64_t bytes;
    int count;
};
// What virtual stage v (plan/schedule.h) hands to the next one, or gets back from it; nothing
// where the meshes of the two are alike.
struct boundary_sum boundary_sum_behind(const struct program *program, int v, bool is_backward);
