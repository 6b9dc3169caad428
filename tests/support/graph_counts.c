#include "tests/support/graph_counts.h"

#include <string.h>

int64_t graph_matmul_parameter_count(const struct graph *graph)
{
    int64_t count = 0;
    for (int i = 0; i < graph->sequence_count; i++)
        count += graph_block_matmul_count(graph, &graph->blocks[graph->sequence[i]]);
    return count;
}

void block_saved_tensors(const struct block *block, bool *saved)
{
    memset(saved, 0, (size_t)block->tensor_count * sizeof *saved);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op->phase != PHASE_FORWARD) continue;
        unsigned bits = op_rule(op->kind)->saves(block, op);
        for (int i = 0; i < op->input_count; i++) {
            if (bits >> i & 1) saved[op->inputs[i]] = true;
        }
        for (int i = 0; i < op->output_count; i++) {
            if (bits >> (SAVES_OUTPUT + i) & 1) saved[op->outputs[i]] = true;
        }
    }
    for (int t = 0; t < block->tensor_count; t++) {
        if (block->tensors[t].role != TENSOR_ACTIVATION) saved[t] = false;
    }
}
