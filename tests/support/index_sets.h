#pragma once
#include "plan/lower/lower.h"

// An independent proof of one lowered block: no number is computed, only which element of which
// tensor, and which contributions to it, each rank of a mesh holds after each instruction.
//
// An element is named by its whole index. What a rank holds of it is a multiset of contributions
// (the slices of a summed-over index that it has added up so far), kept as one signature: the sum
// over the multiset of random numbers of the field of 2^61 - 1 elements, one for each (operator,
// element, summed-over index). An operator is the most general multilinear form that its dims
// allow, so two multisets have one signature by accident with a chance of about 2^-60 (Schwartz
// 1980, Zippel 1979). The signature of the unsplit block is the complete set.
//
// What is demanded:
//   - operators find every element they read, at the right index and, where they are not linear in
//     it, complete; local arrays of one operator line up
//   - after every instruction, the buffer holds exactly the slice its layout claims, complete, or,
//     where the layout claims a partial sum, the ranks' parts add up to it, none missing, none
//     twice
//   - collectives move what their own fields (axes, dim, to_dim, combine, bytes, parent) say
//   - buffers are used within their lifetimes; outputs, input gradients and, over the declared
//     axes, parameter gradients end complete; ZeRO's flat collectives are there, once, over the
//     axes that store
// Nothing of plan/layout/layout.c, plan/layout/strategy.c or the rules of models/op.c decides any
// of it.

struct sets_case {
    const struct differentiated *facts;
    const struct block_program *program;
    const struct mesh *mesh;
    const struct parallel *parallel;
    int64_t seq_len;
    bool has_capacity;  // experts take so many rows and drop the rest
    int element_bytes;  // of ELEMENT_COMPUTE in the precision that was lowered for
};

struct sets_result {
    int violation_count;
    char text[256];  // the first violation; empty when there is none
};

struct sets_result sets_check(struct arena *arena, const struct sets_case *task);
