#pragma once
#include "cost_models/compute.h"

// The part of compute_price that is about scans.

struct compute_cost scan_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr);
