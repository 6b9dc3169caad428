#include "plan/lower/lowering.h"

#include <assert.h>

// The mark of the forward contraction that reads a parameter; 0: it shares its input with none.
static int merge_of(const struct lowering *low, int tensor)
{
    for (int i = 0; i < low->facts->forward_op_count; i++) {
        const struct op *op = &low->block->ops[i];
        if (op->kind != OP_CONTRACT) continue;
        for (int k = 0; k < op->input_count; k++) {
            if (op->inputs[k] == tensor) return op->merge;
        }
    }
    return 0;
}

// The last dim of what is made with it, which a matrix that shares its input has in front of that.
static enum dim last_of(const struct tensor *tensor, int merge)
{
    bool is_by_output = merge > 0 && tensor_find_dim(tensor, DIM_EXPERT) < 0;
    assert(tensor->rank >= (is_by_output ? 2 : 1));
    return tensor->extents[tensor->rank - (is_by_output ? 2 : 1)].dim;
}

static int expert_count(const struct lowering *low, const struct tensor *tensor,
                        const struct layout *layout)
{
    int expert = tensor_find_dim(tensor, DIM_EXPERT);
    if (expert < 0) return 1;
    int ranks = mesh_size(low->mesh, layout_axes_on(layout, DIM_EXPERT));
    return (int)(tensor->extents[expert].size / ranks);
}

void lowering_weights(struct lowering *low)
{
    struct block_program *program = low->program;
    program->weights = ARENA_NEW(low->arena, struct weight, program->parameter_count);
    for (int i = 0; i < program->parameter_count; i++) {
        const struct parameter *parameter = &program->parameters[i];
        const struct tensor *tensor = &low->block->tensors[parameter->tensor];
        bool is_router = tensor_find_dim(tensor, DIM_GATE) >= 0;
        if (!parameter->decayed || is_router || tensor->frozen) continue;
        int shared = merge_of(low, parameter->tensor), k = 0;
        int merge = low->joins >> JOIN_MERGED & 1 ? shared : 0;
        while (k < program->weight_count && (merge == 0 || program->weights[k].merge != merge))
            k++;
        struct weight *weight = &program->weights[k];
        if (k == program->weight_count) {
            *weight = (struct weight){
                .kind = parameter->kind,
                .merge = merge,
                .last = last_of(tensor, shared),
                .expert_count = expert_count(low, tensor, &parameter->layout),
            };
            program->weight_count++;
        }
        weight->elements += parameter->elements;
    }
}
