#include "models/graph.h"

#include <assert.h>
#include <string.h>

// What is only handed on no operator of the block looks at.
static bool is_read(const struct block *block, int tensor)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        for (int i = 0; i < op->input_count; i++)
            if (op->inputs[i] == tensor) return true;
    }
    return false;
}

// Inputs at the end that are outputs at the end, and nothing else.
static int handed_on(const struct block *block)
{
    int count = 0;
    while (count < block->input_count && count < block->output_count) {
        int tensor = block->inputs[block->input_count - 1 - count];
        if (block->outputs[block->output_count - 1 - count] != tensor || is_read(block, tensor))
            break;
        count++;
    }
    return count;
}

void graph_add_alone(struct arena *arena, struct graph *graph)
{
    assert(!graph->alone && "added once: a second call would count such blocks as kinds");
    int kinds = graph->block_count;
    int *alone = ARENA_NEW(arena, int, 2 * kinds);
    struct block *blocks = ARENA_NEW(arena, struct block, 2 * kinds);
    for (int kind = 0; kind < kinds; kind++)
        blocks[kind] = graph->blocks[kind];
    for (int kind = 0; kind < 2 * kinds; kind++)
        alone[kind] = -1;
    for (int kind = 0; kind < kinds; kind++) {
        int count = handed_on(&blocks[kind]);
        if (count == 0) continue;
        alone[kind] = graph->block_count;
        struct block *own = &blocks[graph->block_count++];
        *own = blocks[kind];
        own->tensors = ARENA_NEW(arena, struct tensor, own->tensor_count);
        own->ops = ARENA_NEW(arena, struct op, own->op_count);
        memcpy(own->tensors, blocks[kind].tensors,
               (size_t)own->tensor_count * sizeof *own->tensors);
        memcpy(own->ops, blocks[kind].ops, (size_t)own->op_count * sizeof *own->ops);
        own->name = arena_print(arena, "%s.alone", blocks[kind].name);
        own->input_count -= count;
        own->output_count -= count;
        assert(own->input_count >= 0 && own->output_count >= 0);
    }
    assert(graph->block_count <= 2 * kinds);
    graph->blocks = blocks;
    graph->alone = alone;
}
