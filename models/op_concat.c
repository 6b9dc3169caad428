#include "models/op_concat.h"

#include <assert.h>

static const struct extent *last_of(const struct block *block, int tensor)
{
    const struct tensor *t = &block->tensors[tensor];
    assert(t->rank > 0);
    return &t->extents[t->rank - 1];
}

static bool joins(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->input_count; i++) {
        if (last_of(block, op->inputs[i])->dim == dim) return true;
    }
    for (int i = 0; i < op->output_count; i++) {
        if (last_of(block, op->outputs[i])->dim == dim) return true;
    }
    return false;
}

enum split op_concat_split(const struct block *block, const struct op *op, enum dim dim)
{
    if (joins(block, op, dim) || !op_has_dim(block, op, dim)) return SPLIT_NO;
    for (int i = 0; i < op->output_count; i++) {
        if (tensor_find_dim(&block->tensors[op->outputs[i]], dim) < 0) return SPLIT_PARTIAL;
    }
    return SPLIT_FREE;
}

double op_concat_backward_flop(const struct block *block, const struct op *op,
                               const int64_t size[DIM_COUNT])
{
    const struct tensor *whole = &block->tensors[op->inputs[0]];
    double rows = 1, added = 0;
    for (int i = 0; i < whole->rank - 1; i++) {
        rows *= (double)size[whole->extents[i].dim];
    }
    for (int i = 0; i < op->output_count; i++) {
        bool is_sum = block->tensors[op->outputs[i]].rank < whole->rank;
        // The widths of the parts differ although their dims may be called alike.
        if (is_sum) added += rows * (double)last_of(block, op->outputs[i])->size;
    }
    return added;
}
