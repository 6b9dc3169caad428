#pragma once
#include "cost_models/compute.h"

// Scans as our own back end for GPUs runs them: in chunks (plan/scan_chunks.h).

// Whether it is one that runs so; of its instructions memory is asked, so that a search keeps them.
bool scan_is_chunked(const struct stack *stack, const struct block *block,
                     const struct instr *instr);
// The products of each part of the heads one after another, and the kernels between them, which
// wait for memory.
struct compute_cost chunked_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr);
// What the device keeps for the scans of this block.
double chunked_bytes(const struct stack *stack, enum precision precision,
                     const struct block_program *block);
