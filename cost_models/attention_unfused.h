#pragma once
#include "cost_models/compute.h"
#include "plan/unfused.h"

// Attention that our own back end has no fused kernel for (plan/unfused.inc), though the plan asks
// for one: products with scores in memory, some heads at a time.

// The rule that it breaks, or UNFUSED_COUNT: there is a fused kernel, as there is in all other
// software.
enum unfused attention_unfused(const struct stack *stack, enum precision precision,
                               const struct block_program *program, const struct instr *instr);
struct compute_cost unfused_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr);
// What the device keeps for scores, of a layer of this block, as long as it trains: of attention by
// products some heads' and their weights', and what stack.score_buffer says.
double score_bytes(const struct stack *stack, enum precision precision,
                   const struct block_program *block);
