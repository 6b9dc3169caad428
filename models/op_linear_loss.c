#include "models/op_linear_loss.h"

#include <assert.h>

// Where x stands among the inputs: in backward behind the gradient of the loss.
static const struct tensor *operand(const struct block *block, const struct op *op, int index)
{
    return &block->tensors[op->inputs[index + (op->kind == OP_LINEAR_LOSS_BACKWARD)]];
}

// The dim that the product sums over, which is the last of x.
static enum dim depth_of(const struct block *block, const struct op *op)
{
    assert(op->kind == OP_LINEAR_LOSS || op->kind == OP_LINEAR_LOSS_BACKWARD);
    const struct tensor *x = operand(block, op, 0);
    return x->extents[x->rank - 1].dim;
}

static enum dim columns_of(const struct block *block, const struct op *op)
{
    const struct tensor *weight = operand(block, op, 1);
    assert(weight->rank == 2);
    return weight->extents[weight->extents[0].dim == depth_of(block, op)].dim;
}

enum split op_linear_loss_split(const struct block *block, const struct op *op, enum dim dim)
{
    bool is_forward = op->kind == OP_LINEAR_LOSS;
    if (dim == depth_of(block, op)) return SPLIT_NO;
    if (dim == columns_of(block, op)) return is_forward ? SPLIT_REDUCED : SPLIT_PARTIAL;
    if (tensor_find_dim(operand(block, op, 0), dim) < 0) return SPLIT_NO;
    return is_forward || op->output_count < 2 ? SPLIT_FREE : SPLIT_PARTIAL;
}

struct gemm op_linear_loss_gemm(const struct block *block, const struct op *op,
                                const int64_t size[DIM_COUNT])
{
    const struct tensor *x = operand(block, op, 0);
    struct gemm gemm = {1, 1, size[columns_of(block, op)], size[depth_of(block, op)]};
    for (int i = 0; i < x->rank - 1; i++)
        gemm.m *= size[x->extents[i].dim];
    assert(gemm.m > 0 && gemm.n > 0 && gemm.k > 0);
    return gemm;
}

double op_linear_loss_flop(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT])
{
    struct gemm gemm = op_linear_loss_gemm(block, op, size);
    bool is_forward = op->kind == OP_LINEAR_LOSS;
    double products = is_forward ? 1 : 1 + op->output_count;
    return products * gemm_flop(&gemm) + op->flop_per_element * (double)gemm.m * (double)gemm.n;
}
