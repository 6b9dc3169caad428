#include "models/op_linear_loss.h"

#include <assert.h>
#include <string.h>

// A product that makes the scores of a loss, which nothing else reads.
struct pair {
    int product, loss;  // ops
    int x, weight;      // tensors
};

// Leaving the block counts as one.
static int readers_of(const struct block *block, int tensor)
{
    int readers = 0;
    for (int o = 0; o < block->op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++)
            readers += block->ops[o].inputs[i] == tensor;
    }
    for (int i = 0; i < block->output_count; i++)
        readers += block->outputs[i] == tensor;
    return readers;
}

// Rows of which the last dim is what a matrix with two dims sums over.
static bool is_multiplied(const struct tensor *x, const struct tensor *weight,
                          const struct tensor *scores)
{
    if (weight->role != TENSOR_PARAMETER || weight->rank != 2 || x->rank != scores->rank)
        return false;
    enum dim depth = x->extents[x->rank - 1].dim, columns = scores->extents[x->rank - 1].dim;
    for (int i = 0; i < x->rank - 1; i++)
        if (x->extents[i].dim != scores->extents[i].dim) return false;
    return tensor_find_dim(weight, depth) >= 0 && tensor_find_dim(weight, columns) >= 0;
}

static bool find_pair(const struct block *block, int loss, struct pair *pair)
{
    const struct op *op = &block->ops[loss];
    int scores = op->inputs[0], product = block->tensors[scores].producer;
    if (op->function != FUNCTION_NONE || product < 0 || readers_of(block, scores) != 1)
        return false;
    const struct op *made = &block->ops[product];
    if (made->kind != OP_CONTRACT || made->merge != 0) return false;
    bool is_first = block->tensors[made->inputs[0]].role == TENSOR_PARAMETER;
    *pair = (struct pair){product, loss, made->inputs[is_first], made->inputs[!is_first]};
    return is_multiplied(&block->tensors[pair->x], &block->tensors[pair->weight],
                         &block->tensors[scores]);
}

// Without the product's scores; ids of tensors and ops move up.
static void join_pair(struct arena *arena, struct block *block, const struct pair *pair, int parts)
{
    int scores = block->ops[pair->loss].inputs[0];
    struct op joined = block->ops[pair->loss];
    assert(joined.input_count == 2 && "scores and labels");
    assert(pair->product < pair->loss);
    joined.kind = OP_LINEAR_LOSS;
    joined.scalar = block->ops[pair->product].scalar;
    joined.chunk = parts;
    joined.inputs[2] = joined.inputs[1];
    joined.inputs[0] = pair->x;
    joined.inputs[1] = pair->weight;
    joined.input_count = 3;
    block->tensors = ARENA_COPY(arena, struct tensor, block->tensors, block->tensor_count);
    block->ops = ARENA_COPY(arena, struct op, block->ops, block->op_count);
    // Blocks may share arrays (models/branches.c): this one gets its own.
    block->ops[pair->loss] = joined;
    size_t tensors = (size_t)(--block->tensor_count - scores);
    memmove(&block->tensors[scores], &block->tensors[scores + 1], tensors * sizeof *block->tensors);
    size_t ops = (size_t)(--block->op_count - pair->product);
    memmove(&block->ops[pair->product], &block->ops[pair->product + 1], ops * sizeof *block->ops);
    for (int t = 0; t < block->tensor_count; t++)
        block->tensors[t].producer -= block->tensors[t].producer > pair->product;
    for (int o = 0; o < block->op_count; o++) {
        struct op *op = &block->ops[o];
        op->forward_op = o;
        for (int i = 0; i < op->input_count; i++)
            op->inputs[i] -= op->inputs[i] > scores;
        for (int i = 0; i < op->output_count; i++)
            op->outputs[i] -= op->outputs[i] > scores;
    }
    for (int i = 0; i < block->input_count; i++)
        block->inputs[i] -= block->inputs[i] > scores;
    for (int i = 0; i < block->output_count; i++)
        block->outputs[i] -= block->outputs[i] > scores;
}

// All losses or none: the first walk only looks, so that a refusal leaves the graph as it was.
bool match_loss_graph(struct arena *arena, struct graph *graph, int parts)
{
    assert(parts > 0);
    struct pair pair;
    int found = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            if (block->ops[o].kind != OP_LOSS) continue;
            if (!find_pair(block, o, &pair)) return false;
            found++;
        }
    }
    for (int b = 0; b < graph->block_count; b++) {
        for (int o = 0; o < graph->blocks[b].op_count; o++) {
            if (graph->blocks[b].ops[o].kind != OP_LOSS) continue;
            if (!find_pair(&graph->blocks[b], o, &pair)) return false;
            join_pair(arena, &graph->blocks[b], &pair, parts);
            o = -1;  // ids have moved
        }
    }
    return found > 0;
}
