#pragma once
#include "cost_models/compute.h"

// Convolutions of imported graphs as our own back end for GPUs runs them: GEMMs of a matrix that is
// unfolded before, or folded behind (plan/unfolded.h). Of their instructions batch, seq and kv_seq
// are samples, rows and columns of the narrow side, as lowering finds them.

// Whether it is one that runs so; of its instructions memory is asked, so that a search keeps them.
bool convolution_unfolds(const struct stack *stack, const struct block *block,
                         const struct instr *instr);
struct compute_cost convolution_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr);
// What the device keeps for the largest matrix of this block as long as it trains.
double convolution_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block);
