#pragma once
#include "models/op.h"

// What tests count in graphs.

// graph_block_matmul_count of all blocks of the sequence.
int64_t graph_matmul_parameter_count(const struct graph *graph);
// Sets saved[tensor] for every activation that the backward of the block's forward ops reads; the
// others are false. `saved` holds block->tensor_count flags.
void block_saved_tensors(const struct block *block, bool *saved);
