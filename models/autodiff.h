#pragma once
#include "models/graph.h"

// Adds the backward pass to a forward block; it is derived, never written. For each forward op in
// reverse: a contraction C = A.B gives dA = dC.B (PHASE_BACKWARD when A is an activation,
// PHASE_WEIGHT when it is a parameter) and dB = A.dC likewise; other kinds follow their row of
// models/op.h. A tensor read by several ops has its gradient contributions added by one OP_ADD,
// which keeps partial sums partial, so that they are communicated once. Gradients of parameters
// are PHASE_WEIGHT when they are contractions or reductions of their own kernel, and come with
// the PHASE_BACKWARD op when that kernel produces both (norm).
//
// Returns a new block in `arena`: the forward ops first (indices unchanged), then PHASE_BACKWARD
// and PHASE_WEIGHT ops in an order that respects the edges. The gradient of a forward tensor x is
// called "d_x"; where x has several readers their contributions are "d_x.0", "d_x.1", ... A term of
// a sum (residual) has the gradient of the sum itself: no op and no tensor of its own. The sum over
// several readers has the producer of x as `forward_op`, for a block input its first reader.
struct block_gradients {
    int of_output[BLOCK_EDGES];  // given from outside: no producer; -1: of keys that are chosen
    int of_input[BLOCK_EDGES];   // -1 when the block input needs none (ids)
    int *of_parameter;           // indexed by tensor; -1 for what is no parameter that is trained
};
struct block *autodiff_block(struct arena *arena, const struct block *forward,
                             struct block_gradients *gradients);
