#include "models/op_pool.h"

#include <assert.h>

static const double POOL_FLOP = 6;

enum split op_pool_split(const struct block *block, const struct op *op, enum dim dim)
{
    (void)block, (void)op;
    return dim == DIM_BATCH ? SPLIT_FREE : SPLIT_NO;
}

double op_pool_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    assert(size[DIM_BATCH] > 0 && size[DIM_SEQ] > 0);
    (void)block;
    double passes = op->kind == OP_POOL ? 1 : 3;
    return passes * POOL_FLOP * (double)size[DIM_BATCH] * (double)size[DIM_SEQ] *
           (double)size[DIM_RANK];
}

enum split op_pooled_split(const struct block *block, const struct op *op, enum dim dim)
{
    (void)block, (void)op;
    return dim == DIM_BATCH || dim == DIM_SEQ || dim == DIM_HEAD ? SPLIT_FREE : SPLIT_NO;
}

// As of keys: half of all, or all that are chosen but for the first queries.
double op_entry_pairs(const struct op *op, int64_t queries, int64_t entries)
{
    const struct op of_entries = {.causal = true, .window = op->top_k};
    return op_attended_pairs(&of_entries, queries, entries);
}

static double pairs(const struct op *op, const int64_t size[DIM_COUNT])
{
    const struct op near = {.causal = true, .window = op->window};
    int64_t keys = size[DIM_KV_SEQ] ? size[DIM_KV_SEQ] : size[DIM_SEQ];
    assert(op->causal && keys > 0 && size[DIM_ENTRY] > 0);
    return op_attended_pairs(&near, size[DIM_SEQ], keys) +
           op_entry_pairs(op, size[DIM_SEQ], size[DIM_ENTRY]);
}

// Two products of each pair, and five in backward (models/op_attention.c).
double op_pooled_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    (void)block;
    double products = op->kind == OP_POOLED ? 2 : 5;
    return 2 * products * pairs(op, size) * (double)size[DIM_BATCH] * (double)size[DIM_HEAD] *
           (double)size[DIM_HEAD_DIM];
}

double op_pooled_model_flop(const struct block *block, const struct op *op, int64_t seq)
{
    const struct tensor *q = &block->tensors[op->inputs[0]];
    assert(q->rank == 4 && op->rate > 0);
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 1, [DIM_SEQ] = seq, [DIM_ENTRY] = seq / op->rate};
    size[DIM_HEAD] = q->extents[2].size;
    size[DIM_HEAD_DIM] = q->extents[3].size;
    // Shorter than an entry: there is none.
    if (size[DIM_ENTRY] == 0) size[DIM_ENTRY] = 1;
    return op_pooled_flop(block, op, size);
}
