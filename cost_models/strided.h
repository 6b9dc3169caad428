#pragma once
#include "cost_models/compute.h"

// What goes with loops over numbers as our CUDA back end runs it (executor/cuda/strided.c): with
// what its launches move beside what its price, `stream`, has.
struct compute_cost strided_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr,
                                  struct compute_cost stream);
// What attention among them has in memory beside its tensors: scores and weights of some heads, in
// backward their gradients as well. `element_bytes`: of a number of the run's precision.
double strided_bytes(const struct block_program *program, const struct instr *instr,
                     double element_bytes);
