#include "models/op_choose.h"

#include <assert.h>

enum split op_choose_split(const struct block *block, const struct op *op, enum dim dim)
{
    (void)block, (void)op;
    return dim == DIM_BATCH || dim == DIM_SEQ ? SPLIT_FREE : SPLIT_NO;
}

// What the choice leaves does not count here: every key, or every entry, is scored.
static double op_choose_pairs(const struct op *op, const int64_t size[DIM_COUNT])
{
    struct op all = *op;
    all.top_k = 0;
    int64_t keys = size[DIM_KV_SEQ] ? size[DIM_KV_SEQ] : size[DIM_SEQ];
    if (op->rate > 0) keys = size[DIM_ENTRY];
    assert(op->causal && keys > 0);
    return (double)size[DIM_BATCH] * op_attended_pairs(&all, size[DIM_SEQ], keys);
}

// Both passes of a choice are here; backward writes zeros.
double op_choose_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    (void)block;
    if (op->kind == OP_CHOOSE_BACKWARD) return 0;
    assert(size[DIM_INDEX_HEAD] > 0 && size[DIM_HEAD_DIM] > 0);
    double each = (double)size[DIM_INDEX_HEAD] * (2.0 * (double)size[DIM_HEAD_DIM] + 3);
    return op_choose_pairs(op, size) * each;
}

double op_choose_model_flop(const struct block *block, const struct op *op, int64_t seq)
{
    const struct tensor *q = &block->tensors[op->inputs[0]];
    assert(q->rank == 4);
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 1, [DIM_SEQ] = seq};
    if (op->rate > 0) size[DIM_ENTRY] = seq > op->rate ? seq / op->rate : 1;
    size[DIM_INDEX_HEAD] = q->extents[2].size;
    size[DIM_HEAD_DIM] = q->extents[3].size;
    return op_choose_flop(block, op, size);
}
