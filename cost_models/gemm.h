#pragma once
#include "cost_models/compute.h"

// The part of compute_price that is about contractions.

struct compute_cost gemm_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr);
// What it takes longer where it adds to what is there: our executor's weight gradients, in all
// micro-batches but the first. 0 for all others, and where the price was measured.
double gemm_adding_s(const struct compute_context *context, const struct block_program *program,
                     const struct instr *instr);
// The GEMM that runs for this instruction and the contractions that it does the work of, itself
// first; returns how many, 0 when an earlier one does its work.
enum { CONTRACTION_JOINED_MAX = 8 };
int contraction_joined(const struct block_program *program, const struct instr *instr,
                       const struct instr *joined[CONTRACTION_JOINED_MAX], struct gemm *gemm);
// The shape of that GEMM for a table of measured kernels; false: an earlier one does its work.
bool contraction_shape(const struct compute_context *context, const struct block_program *program,
                       const struct instr *instr, struct kernel *shape);
// Whether this GEMM runs in fp8 or fp4.
bool gemm_is_low_precision(const struct compute_context *context,
                           const struct block_program *program, const struct instr *instr);
// Whether this sum of input gradients is part of the GEMM that made them.
bool contraction_has_summed(const struct block_program *program, const struct instr *instr);
// Quantising the weights of a block once a step; 0 where nothing is narrow or every micro-batch
// does it itself. `scale_count`: operands that have a scale of their own, three a low-precision
// GEMM.
double weight_cast_s(const struct compute_context *context, const struct block_program *program,
                     int *scale_count);
