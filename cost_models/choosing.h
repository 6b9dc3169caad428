#pragma once
#include "cost_models/compute.h"

// Whether it is one that our CUDA back end runs; of its instructions memory is asked, so that a
// search keeps them.
bool choosing_is_own(const struct stack *stack, const struct instr *instr);
// The choice of keys as our CUDA back end makes it (plan/choose_parts.h): what it takes, and the
// memory that it keeps in a layer of this block.
struct compute_cost choosing_price(const struct compute_context *context, const struct instr *instr,
                                   const struct compute_cost *stream);
double choosing_bytes(const struct stack *stack, const struct block_program *block);
