#include "models/op_concat.h"

#include <assert.h>

// Where in a tensor the dim stands that is joined: `joint` of the whole, or its last; of a part as
// far from its end.
static const struct extent *joined_of(const struct block *block, const struct op *op, int tensor)
{
    const struct tensor *t = &block->tensors[tensor];
    const struct tensor *whole =
        &block->tensors[op->kind == OP_CONCAT ? op->outputs[0] : op->inputs[0]];
    int joint = tensor_find_dim(whole, DIM_JOINT), behind = joint < 0 ? 1 : whole->rank - joint;
    assert(t->rank >= behind);
    return &t->extents[t->rank - behind];
}

static bool joins(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->input_count; i++) {
        if (joined_of(block, op, op->inputs[i])->dim == dim) return true;
    }
    for (int i = 0; i < op->output_count; i++) {
        if (joined_of(block, op, op->outputs[i])->dim == dim) return true;
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
    assert(op->kind == OP_CONCAT_BACKWARD && op->input_count >= 1);
    const struct tensor *whole = &block->tensors[op->inputs[0]];
    double rows = 1, added = 0;
    for (int i = 0; i < whole->rank - 1; i++) {
        rows *= (double)size[whole->extents[i].dim];
    }
    for (int i = 0; i < op->output_count; i++) {
        const struct tensor *part = &block->tensors[op->outputs[i]];
        // The widths of the parts differ although their dims may be called alike.
        if (part->rank < whole->rank) added += rows * (double)part->extents[part->rank - 1].size;
    }
    return added;
}
