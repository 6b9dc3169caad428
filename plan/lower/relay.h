#pragma once
#include "plan/lower/lowering.h"

// A gather that GEMMs alone read, or a sum of what GEMMs alone make that is scattered, handed on
// rank by rank instead (--tp-relay; "collective matmul": Wang et al. 2023, ASPLOS). Each rank has a
// part of the gathered dim. While it multiplies a part, its own first, it hands that part to the
// rank behind it and takes another from the rank before:
//
//     own part  ->  1 behind  ->  2 behind  ...     SEND_RECVs, on the stream of tp
//        |             |             |
//      GEMMs         GEMMs         GEMMs            on the stream of compute, one part later
//
// In as many parts as there are ranks, since a rank has its own at once: in smaller ones nothing
// would begin earlier. In fewer, ranks next to each other have one together: they gather it first,
// or scatter the sum of it at the end (mesh_make cuts tp there). The gathered tensor is never
// whole: two parts are alive at a time, the one that is multiplied and the one that comes. Of a sum
// each rank begins with the part of the rank 1 behind, and what has come from the rank before is
// added to what it made meanwhile of the same part; its own part comes last:
//
//      GEMMs         GEMMs         GEMMs
//     1 behind  ->  2 behind  ->  3 behind  ...  ->  own part
//
// All of this is instructions like any others, which are priced, ordered and placed in memory,
// simulated, checked and run as such:
//
// - a part is a buffer in the layout in which the tensor is split, of which it says whose part it
//   is (struct buffer, behind);
// - a SEND_RECV makes the next part of one; a SLICE adds what came to a part, in its place;
// - work on a part (struct instr, rows) reads and writes of its other operands what has the same
//   indices: rows of a result, which becomes whole part by part in its place; rows of what a sum is
//   made of; or of what a weight's gradient is summed over, where the parts add up in the gradient.
//
// So is a matrix handed on that a grid of tp keeps split: a product reads the columns that go with
// a part, and adds to its result, or makes those columns of it. And so are columns of what a
// product reads of the tokens, where the matrix, or the gradient that is made of it, begins with
// their dim: those that go with a part stand in one piece. Where both operands are gathered the
// larger is handed on; both at once would have to meet in the same part, which two rings that turn
// on axes of their own do not, but panels of SUMMA do (plan/lower/relay_pair.h).
//
// It is done where the parts are equal and no other operator needs the tensor whole: in forward, in
// forward work that is recomputed, for the gradients of what was gathered in forward, and for the
// weight gradients of that. A gradient that both an input's and a weight's gradient read is
// gathered as it is without a relay.

// Turns such gathers and scatters of a lowered block into relays, where the plan has them.
void lowering_relay(struct lowering *low);
