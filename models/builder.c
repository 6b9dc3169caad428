#include "models/builder.h"

#include <assert.h>
#include <string.h>

enum { CAPACITY_LEAST = 64 };

struct builder builder_new(struct arena *arena, const char *name, enum block_role role)
{
    struct builder builder = {arena, ARENA_NEW(arena, struct block, 1), CAPACITY_LEAST,
                              CAPACITY_LEAST};
    builder.block->name = name;
    builder.block->role = role;
    builder.block->tensors = ARENA_NEW(arena, struct tensor, CAPACITY_LEAST);
    builder.block->ops = ARENA_NEW(arena, struct op, CAPACITY_LEAST);
    return builder;
}

struct builder builder_copy(struct arena *arena, const struct block *block)
{
    struct builder builder = {arena, ARENA_NEW(arena, struct block, 1), block->tensor_count * 3,
                              block->op_count * 4};
    assert(block->tensor_count > 0 && block->op_count > 0);
    *builder.block = *block;
    builder.block->tensors = ARENA_NEW(arena, struct tensor, builder.tensor_capacity);
    memcpy(builder.block->tensors, block->tensors,
           (size_t)block->tensor_count * sizeof *block->tensors);
    builder.block->ops = ARENA_NEW(arena, struct op, builder.op_capacity);
    memcpy(builder.block->ops, block->ops, (size_t)block->op_count * sizeof *block->ops);
    return builder;
}

int builder_tensor(struct builder *builder, const char *name, enum tensor_role role,
                   enum element element, struct shape shape)
{
    struct block *block = builder->block;
    ARENA_GROW(builder->arena, block->tensors, block->tensor_count, builder->tensor_capacity);
    struct tensor *tensor = &block->tensors[block->tensor_count];
    *tensor = (struct tensor){
        .name = name, .role = role, .element = element, .producer = -1, .gradient_of = -1};
    while (tensor->rank < TENSOR_RANK_MAX && shape.extents[tensor->rank].dim != DIM_NONE) {
        tensor->extents[tensor->rank] = shape.extents[tensor->rank];
        tensor->rank++;
    }
    return block->tensor_count++;
}

int builder_op(struct builder *builder, struct op op)
{
    struct block *block = builder->block;
    assert(op.input_count > 0 && op.input_count <= OP_INPUT_MAX);
    assert(op.output_count > 0 && op.output_count <= OP_OUTPUT_MAX);
    ARENA_GROW(builder->arena, block->ops, block->op_count, builder->op_capacity);
    for (int i = 0; i < op.input_count; i++)
        assert(op.inputs[i] >= 0 && op.inputs[i] < block->tensor_count);
    int index = block->op_count++;
    for (int i = 0; i < op.output_count; i++) {
        assert(block->tensors[op.outputs[i]].producer < 0);
        block->tensors[op.outputs[i]].producer = index;
    }
    if (op.phase == PHASE_FORWARD) op.forward_op = index;
    block->ops[index] = op;
    return index;
}

int builder_parameter(struct builder *builder, const char *name, const char *suffix,
                      struct shape shape)
{
    const char *full = arena_print(builder->arena, "%s.%s", name, suffix);
    return builder_tensor(builder, full, TENSOR_PARAMETER, ELEMENT_COMPUTE, shape);
}

int builder_result(struct builder *builder, struct op op, struct shape shape)
{
    op.output_count = op.output_count ? op.output_count : 1;
    op.outputs[0] = builder_tensor(builder, op.name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    builder_op(builder, op);
    return op.outputs[0];
}

struct shape builder_shape(const struct builder *builder, int tensor)
{
    struct shape shape = {0};
    const struct tensor *from = &builder->block->tensors[tensor];
    memcpy(shape.extents, from->extents, sizeof shape.extents);
    return shape;
}
