#pragma once
#include "plan/lower/grouping.h"

// GEMMs that share their input (q, k, v; gate, up) as one of our engine's: forward, the sum of
// their input gradients, and their weight gradients. Their weights lie side by side (output by
// output, models/families/layers.c; one behind another, plan/lower/differentiate.c). So do, row by
// row, their results, and the gradients of these: packed buffers, of which whoever reads or writes
// them has a view, with a row as far from the next as the whole's. What does no more than add a
// bias to such a result or rotate it does so in its place, and so does a rotation backward.
//
// A group is formed where this costs no memory: all results are kept for later phases or none is;
// where all ranks have as much of each weight, so that no room is left between two; and where
// nobody exchanges results between ranks, which takes dense arrays. Members are GEMMs of one mark
// (instr->merge), in the order of their weights, behind them what is absorbed: forward the biases,
// where the back end has SUM or BIAS, backward the one sum of all, and beside the weight gradients
// those of the biases, where it has BIAS_GRADIENT.

// Forms such groups, gives views to the instructions that see packed buffers (inputs and outputs
// are still those of the views), and takes the mark from GEMMs that run alone. Before other groups.
void merged_form(struct arena *arena, const struct grouping *grouping, const struct mesh *mesh);
