#pragma once
#include "cost_models/step.h"

// Seconds that gradients of parameters take beside the operators that make them. Who makes one
// first writes it and all others add (struct begins of plan/lower/lower.h). A lookup writes zeros
// first, to all of its table; a GEMM that adds reads what is there; the sum of a bias, which a
// GEMM's epilogue can only write, is added by a kernel of its own.

// Of one micro-batch through a block: what other software adds up (stack.accumulate_bytes), and
// gradients that begin in each.
double gradient_sums_s(const struct price_context *context, const struct block_program *program);
// zeroed_s and added_s of a chunk, from those that do not, but for what GEMMs add.
void gradient_begins_add(const struct price_context *context, const struct program *program,
                         const struct program_chunk *chunk, struct chunk_price *price);
// What the lines of kernels that add sums of biases are called in the ledger.
#define GRADIENT_ADDED_SUM "adding the sum of a bias"
// Seconds that a call of GEMMs takes longer where it adds; of any other 0. And of all of a block.
double gradient_adding_s(const struct price_context *context, const struct block_program *block,
                         const struct instr *instr);
double gradients_adding_s(const struct price_context *context, const struct block_program *block);
