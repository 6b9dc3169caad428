#pragma once
#include "cost_models/compute.h"

// The part of compute_price that is about attention.

struct compute_cost attention_price(const struct compute_context *context,
                                    const struct block_program *program, const struct instr *instr);
