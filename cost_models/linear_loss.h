#pragma once
#include "cost_models/compute.h"

// A loss that makes the scores that it is of part by part (models/op_linear_loss.h): for each part
// a GEMM and one walk over what it made; in backward that GEMM again, a walk that turns scores into
// their gradient, and the two products with it. Then the losses of the rows, or what these
// hand back, from the sum in fp32 to 16 bits.
struct compute_cost linear_loss_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr);

// The memory that it works in, of a head that has one, else 0: the scores of one part, and in
// backward the sum over all parts of what a row hands back, in fp32 where results have 16 bits.
double linear_loss_bytes(enum precision precision, const struct block_program *block);
