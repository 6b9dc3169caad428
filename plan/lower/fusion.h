#pragma once
#include "plan/lower/lower.h"

// The fusion pass: neighbours that are bound by memory and work on the same elements become one
// kernel, as fusing compilers (XLA, TorchInductor) and hand-written kernels (bias + activation,
// bias + dropout + add, add + norm) do. What one member makes and only members read stays in
// registers; what several members read is read once; there is one launch.
//
// Members are op kinds whose rule says element_wise, and norms and their backward, which need whole
// rows of those elements; never GEMMs, attention, softmax, losses or sums over rows (bias
// gradients), nor a change of layout in between. A member reads what another one makes, in the same
// phase and with as many elements; no work outside may stand between them, so that the kernel can
// run where its last member stood. Memory is counted as without the pass: what is never written is
// small beside what is kept.

// Marks the instructions: `kernel` and `kept_bytes` of struct instr.
void fusion_mark(struct arena *arena, struct block_program *program);

// Of kernels that are marked: what their members keep to themselves, `kept_bytes` and `passing`.
void fusion_count_kept(struct arena *arena, struct block_program *program);

// Memory-bound kernels of one micro-batch through the block and what they read and write, without
// the marks and with them.
struct fusion_counts {
    double kernels_before, kernels_after;
    double bytes_before, bytes_after;
};
struct fusion_counts fusion_count(const struct block_program *program);
