#pragma once
#include "cost_models/step.h"

// Seconds that gradients of parameters take beside the operators that make them. Who makes one
// first writes it and all others add (struct begins of plan/lower/lower.h). A lookup writes zeros
// first, to all of its table; the sum of a bias, which a GEMM's epilogue can only write, is added
// to what is there by a kernel of its own.

// Of one micro-batch through a block: what other software adds up (stack.accumulate_bytes), and
// gradients that begin in each.
double gradient_sums_s(const struct price_context *context, const struct block_program *program);
// zeroed_s and added_s of a chunk, from those that do not.
void gradient_begins_add(const struct price_context *context, const struct program *program,
                         const struct program_chunk *chunk, struct chunk_price *price);
// Kernels that add the sums of biases in one use of a block, in the mean micro-batch, and what
// their lines in the ledger are called.
#define GRADIENT_ADDED_SUM "adding the sum of a bias"
double gradient_added_sums(const struct price_context *context, const struct program *program,
                           const struct block_program *block);
