#pragma once
#include "cost_models/compute.h"

// The part of compute_price that is about scans.

struct compute_cost scan_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr);
// What our own back end for GPUs keeps on the device for scans with a decay for each number of a
// channel's state (plan/selective.h).
double selective_scan_bytes(const struct stack *stack, const struct block_program *block);
