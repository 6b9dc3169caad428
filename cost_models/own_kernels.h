#pragma once
#include "cost_models/compute.h"

// Operators that our CUDA back end runs as other kernels than one that reads its inputs and writes
// its outputs: what these launch and move beside their price, `stream`; of all else that price.
struct compute_cost own_kernels_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr, struct compute_cost stream);
// What the device keeps for them, of a layer of this block, as long as it trains.
double own_kernels_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block);
