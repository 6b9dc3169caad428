#pragma once
#include "cost_models/compute.h"

// The delta rule as our own back end for GPUs runs it: kernels that walk along the sequence, token
// after token (plan/walked.h).

// Whether it is one that runs so; of its instructions memory is asked, so that a search keeps them.
bool delta_walks(const struct stack *stack, const struct instr *instr);
// What a token takes is counted in turns: loads that wait for the second cache (200 to 280 cycles
// on Hopper, by who measured it: chipsandcheese.com, "Nvidia's H100: Funny L2, and Tons of
// Bandwidth", 2023), the five shuffles of a warp's sum, an exponential and the additions between.
// Forward it takes two; backward one for each channel and 32 numbers of the state that a warp has,
// in each of five passes, and one for each channel that a column adds up. No device has been asked:
// the order of magnitude is what this is good for.
struct compute_cost walked_price(const struct compute_context *context,
                                 const struct block_program *program, const struct instr *instr);
// A scan or a delta rule as our back end for processors runs it (stack.walks_scans): the numbers of
// all states at all tokens, each so much longer than a flop of a GEMM as was measured, or its
// bytes.
struct compute_cost stepped_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr);
// What the device keeps for the backward of this block as long as it trains.
double walked_bytes(const struct stack *stack, const struct block_program *block);
