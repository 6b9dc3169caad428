#pragma once
#include "cost_models/compute.h"

// The part of compute_price that is about attention.

struct compute_cost attention_price(const struct compute_context *context,
                                    const struct block_program *program, const struct instr *instr);

// A choice of keys: scores at the rate of attention, written for all pairs and read by the kernel
// that chooses. `stream`: what moving its tensors takes.
struct compute_cost choose_price(const struct compute_context *context, const struct op *op,
                                 const struct instr *instr, struct compute_cost stream);
// Attention to tokens and to the entries that they are pooled to, of which each query sees what its
// operator counts; no scores in memory. `stream` as above.
struct compute_cost pooled_price(const struct compute_context *context, const struct op *op,
                                 const struct instr *instr, struct compute_cost stream);

// An operator of an imported graph whose flops are those of matrix products that run as one kernel
// (attention, a recurrence), at the rates of attention without a mask; `stream`: what it moves
// alone takes. Any other costs that.
struct compute_cost products_price(const struct compute_context *context, const struct op *op,
                                   const struct instr *instr, struct compute_cost stream);
