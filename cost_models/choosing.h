#pragma once
#include "cost_models/compute.h"

// The choice of keys as our CUDA back end makes it (plan/choose_parts.h): what it takes, and the
// memory that it keeps in a layer of this block.
struct compute_cost choosing_price(const struct compute_context *context, const struct instr *instr,
                                   const struct compute_cost *stream);
double choosing_bytes(const struct stack *stack, enum precision precision,
                      const struct block_program *block);
// Attention to chosen keys as our CUDA back end meets all that a query may see: with their FLOP and
// bytes. Of all else the instruction as it is.
struct instr attended_instr(const struct stack *stack, const struct block *block,
                            const struct instr *instr);
// What it launches beside the one kernel of each of `blocks` of keys and those that merge their
// results, which `cost` has, and what sums of parts move. Whether gradients of keys and values are
// summed in fp32, of queries that are cut, and added to others at the end of that.
bool add_attended(const struct compute_context *context, const struct instr *instr, double blocks,
                  struct compute_cost *cost);
