#include "models/op_attention.h"

#include <assert.h>

// Queries, keys or values, of forward and of backward, which reads the gradient first.
static const struct tensor *operand(const struct block *block, const struct op *op, int index)
{
    assert(op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD);
    return &block->tensors[op->inputs[index + (op->kind == OP_ATTENTION_BACKWARD)]];
}

static const struct tensor *keys_of(const struct block *block, const struct op *op)
{
    const struct tensor *keys = operand(block, op, 1);
    assert(keys->rank >= 4);
    return keys;
}

enum dim op_keys_dim(const struct block *block, const struct op *op)
{
    if (op->kind != OP_ATTENTION && op->kind != OP_ATTENTION_BACKWARD) return DIM_SEQ;
    const struct tensor *keys = keys_of(block, op);
    return keys->extents[keys->rank - 3].dim;
}

// The dim of the keys stays whole: k and v carry it as the projections leave it, and every query
// needs all of them. Splitting it (ring, gather) is the work of a strategy, not of this rule. What
// stands before it are problems of their own, and so is each query of other dims.
enum split op_attention_split(const struct block *block, const struct op *op, enum dim dim)
{
    bool is_width = dim == DIM_HEAD_DIM || dim == DIM_VALUE_DIM;
    if (dim == op_keys_dim(block, op) || dim == DIM_KV_HEAD || is_width) return SPLIT_NO;
    return op_rule(OP_CONTRACT)->split(block, op, dim);
}

// Keys that are named as their queries are (seq) count as kv_seq where these are split.
struct attention_shape op_attention_shape(const struct block *block, const struct op *op,
                                          const int64_t size[DIM_COUNT])
{
    const struct tensor *keys = keys_of(block, op);
    const struct tensor *queries = operand(block, op, 0);
    enum dim dim = op_keys_dim(block, op);
    struct attention_shape shape = {1, 1, size[dim]};
    if (dim == DIM_SEQ && size[DIM_KV_SEQ]) shape.keys = size[DIM_KV_SEQ];
    for (int i = 0; i + 3 < keys->rank; i++)
        shape.outer *= size[keys->extents[i].dim];
    for (int i = keys->rank - 3; i + 2 < queries->rank; i++)
        shape.queries *= size[queries->extents[i].dim];
    assert(shape.outer > 0 && shape.queries > 0 && shape.keys > 0);
    return shape;
}

// Products as wide as the keys, and as the values.
static double flop_attending(const struct block *block, const struct op *op,
                             const int64_t size[DIM_COUNT], double key_products,
                             double value_products)
{
    assert(size[DIM_HEAD] > 0 && size[DIM_HEAD_DIM] > 0);
    struct attention_shape shape = op_attention_shape(block, op, size);
    double pairs = op_attended_pairs(op, shape.queries, shape.keys);
    double key_width = (double)size[DIM_HEAD_DIM];
    double value_width = size[DIM_VALUE_DIM] ? (double)size[DIM_VALUE_DIM] : key_width;
    double rows = (double)shape.outer * (double)size[DIM_HEAD];
    return 2.0 * pairs * rows * (key_products * key_width + value_products * value_width);
}

double op_attention_flop(const struct block *block, const struct op *op,
                         const int64_t size[DIM_COUNT])
{
    return flop_attending(block, op, size, 1, 1);
}

// Five products where forward has two (Dao 2022, section 3): the scores, computed again, and the
// gradients of q and k are as wide as keys, those of v and of the probabilities as wide as values.
double op_attention_backward_flop(const struct block *block, const struct op *op,
                                  const int64_t size[DIM_COUNT])
{
    return flop_attending(block, op, size, 3, 2);
}
