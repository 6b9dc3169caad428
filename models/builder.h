#pragma once
#include "models/graph.h"

// Appends tensors and operators to one block; families and autodiff both build with it. The block
// lives in the arena of the builder. Operators are appended in an order that respects the edges.

struct builder {
    struct arena *arena;
    struct block *block;
    int tensor_capacity, op_capacity;
};

// A tensor's dimensions; the rank is the number of dims before the first DIM_NONE.
struct shape {
    struct extent extents[TENSOR_RANK_MAX];
};

#define SHAPE(...) ((struct shape){.extents = {__VA_ARGS__}})

struct builder builder_new(struct arena *arena, const char *name, enum block_role role);
// A builder whose block starts as a copy of `block`: indices of tensors and ops stay as they are.
struct builder builder_copy(struct arena *arena, const struct block *block);

// Index of a new tensor without producer. `name` is kept, not copied.
int builder_tensor(struct builder *builder, const char *name, enum tensor_role role,
                   enum element element, struct shape shape);
// Appends the op and makes it the producer of its outputs. Returns its index; an op of
// PHASE_FORWARD gets it as `forward_op`.
int builder_op(struct builder *builder, struct op op);
// A new parameter called name.suffix, and an op whose first output is a new activation of its name,
// which is returned.
int builder_parameter(struct builder *builder, const char *name, const char *suffix,
                      struct shape shape);
int builder_result(struct builder *builder, struct op op, struct shape shape);

struct shape builder_shape(const struct builder *builder, int tensor);
