#include "models/families/diffusion.h"

#include <assert.h>
#include <math.h>

// Work an element, for ops that are bound by memory: it only has to be of the right size.
static const double ROPE_FLOP = 6, NORM_FLOP = 6, ACTIVATION_FLOP = 8, MODULATE_FLOP = 2,
                    LOSS_FLOP = 3;
static const double EPSILON = 1e-6;

struct extent diffusion_hidden(const struct diffusion *d)
{
    assert(d->hidden > 0);
    return (struct extent){DIM_HIDDEN, d->hidden};
}

int diffusion_activation(struct diffusion *d, const char *name, struct shape shape)
{
    return builder_tensor(&d->builder, name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
}

int diffusion_data(struct diffusion *d, const char *name, struct shape shape)
{
    return builder_tensor(&d->builder, name, TENSOR_IDS, ELEMENT_COMPUTE, shape);
}

int diffusion_append(struct diffusion *d, struct op op, struct shape shape)
{
    if (op.scalar == 0 && op.function != FUNCTION_MODULATE) op.scalar = 1;
    return builder_result(&d->builder, op, shape);
}

int diffusion_add(struct diffusion *d, const char *name, int x, int y)
{
    struct op op = {.name = name, .kind = OP_ADD, .input_count = 2, .inputs = {x, y}};
    return diffusion_append(d, op, builder_shape(&d->builder, x));
}

// Every product of these models has a bias: the products of queries, keys and values as well.
int diffusion_project(struct diffusion *d, int x, struct diffusion_linear linear)
{
    int weight = builder_parameter(&d->builder, linear.name, "weight", linear.weight);
    int bias = builder_parameter(&d->builder, linear.name, "bias", linear.bias);
    struct op op = {.name = linear.name,
                    .kind = OP_CONTRACT,
                    .class = linear.class,
                    .input_count = 2,
                    .inputs = {x, weight}};
    int product = diffusion_append(d, op, linear.output);
    const char *name = arena_print(d->builder.arena, "%s.biased", linear.name);
    int sum = diffusion_add(d, name, product, bias);
    d->builder.block->ops[d->builder.block->op_count - 1].class = linear.class;
    return sum;
}

int diffusion_apply(struct diffusion *d, const char *name, int x, enum function function)
{
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = function,
                    .flop_per_element = ACTIVATION_FLOP,
                    .input_count = 1,
                    .inputs = {x}};
    return diffusion_append(d, op, builder_shape(&d->builder, x));
}

int diffusion_modulate(struct diffusion *d, const char *name, int gate, int x, double scalar)
{
    assert(gate >= 0 && x >= 0);
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = FUNCTION_MODULATE,
                    .scalar = scalar,
                    .flop_per_element = MODULATE_FLOP,
                    .input_count = 2,
                    .inputs = {gate, x}};
    return diffusion_append(d, op, builder_shape(&d->builder, x));
}

static int norm(struct diffusion *d, const char *name, int x)
{
    struct op op = {.name = name,
                    .kind = OP_NORM,
                    .function = FUNCTION_LAYER_NORM,
                    .scalar = EPSILON,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 1,
                    .inputs = {x}};
    return diffusion_append(d, op, builder_shape(&d->builder, x));
}

int diffusion_rename_hidden(struct diffusion *d, const char *name, int x)
{
    struct op op = {.name = name, .kind = OP_EXPAND, .input_count = 1, .inputs = {x}};
    return diffusion_append(d, op, SHAPE({DIM_BATCH, 0}, {DIM_RANK, d->hidden}));
}

int diffusion_adapt(struct diffusion *d, const char *prefix, int x, int shift, int scale)
{
    struct arena *arena = d->builder.arena;
    int normed = norm(d, arena_print(arena, "%s.norm", prefix), x);
    int scaled = diffusion_modulate(d, arena_print(arena, "%s.scaled", prefix), scale, normed, 1);
    return diffusion_add(d, arena_print(arena, "%s.shifted", prefix), scaled, shift);
}

int diffusion_embed(struct diffusion *d, const char *name, int x, struct shape inner,
                    struct shape outer, enum function function)
{
    struct arena *arena = d->builder.arena;
    const struct tensor *read = &d->builder.block->tensors[x];
    struct extent from = read->extents[read->rank - 1], hidden = diffusion_hidden(d);
    struct extent rank = {DIM_RANK, d->hidden};
    struct diffusion_linear first = {.name = arena_print(arena, "%s.in", name),
                                     .weight = SHAPE(from, rank),
                                     .bias = SHAPE(rank),
                                     .output = inner};
    struct diffusion_linear second = {.name = arena_print(arena, "%s.out", name),
                                      .weight = SHAPE(rank, hidden),
                                      .bias = SHAPE(hidden),
                                      .output = outer};
    x = diffusion_project(d, x, first);
    x = diffusion_apply(d, arena_print(arena, "%s.activation", name), x, function);
    return diffusion_project(d, x, second);
}

int diffusion_embed_vector(struct diffusion *d, const char *name, int x)
{
    return diffusion_embed(d, name, x, SHAPE({DIM_BATCH, 0}, {DIM_RANK, d->hidden}),
                           SHAPE({DIM_BATCH, 0}, diffusion_hidden(d)), FUNCTION_SILU);
}

int diffusion_embed_waves(struct diffusion *d, const char *name, const char *waves)
{
    int x = diffusion_data(d, waves, SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, DIFFUSION_WAVES}));
    return diffusion_embed_vector(d, name, x);
}

int diffusion_to_heads(struct diffusion *d, const char *name, int x, struct shape output)
{
    struct extent heads = {DIM_HEAD, d->head_count}, width = {DIM_HEAD_DIM, d->head_dim};
    struct diffusion_linear linear = {.name = name,
                                      .weight = SHAPE(diffusion_hidden(d), heads, width),
                                      .bias = SHAPE(heads, width),
                                      .output = output};
    return diffusion_project(d, x, linear);
}

int diffusion_from_heads(struct diffusion *d, const char *name, int x, struct shape output)
{
    struct extent heads = {DIM_HEAD, d->head_count}, width = {DIM_HEAD_DIM, d->head_dim};
    struct diffusion_linear linear = {.name = name,
                                      .weight = SHAPE(heads, width, diffusion_hidden(d)),
                                      .bias = SHAPE(diffusion_hidden(d)),
                                      .output = output};
    return diffusion_project(d, x, linear);
}

int diffusion_head_norm(struct diffusion *d, const char *name, int x)
{
    const char *normed = arena_print(d->builder.arena, "%s.norm", name);
    int weight =
        builder_parameter(&d->builder, normed, "weight", SHAPE({DIM_HEAD_DIM, d->head_dim}));
    struct op op = {.name = normed,
                    .kind = OP_NORM,
                    .function = FUNCTION_RMS_NORM,
                    .scalar = EPSILON,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 2,
                    .inputs = {x, weight}};
    return diffusion_append(d, op, builder_shape(&d->builder, x));
}

int diffusion_rotate(struct diffusion *d, const char *name, int x, struct op rotation)
{
    rotation.name = arena_print(d->builder.arena, "%s.rope", name);
    rotation.kind = OP_ELEMENTWISE;
    rotation.function = FUNCTION_ROPE;
    rotation.scalar = 10000;
    rotation.flop_per_element = ROPE_FLOP;
    rotation.input_count = 1;
    rotation.inputs[0] = x;
    return diffusion_append(d, rotation, builder_shape(&d->builder, x));
}

int diffusion_feed_forward(struct diffusion *d, const char *prefix, int x, int64_t ffn)
{
    assert(ffn > 0);
    struct arena *arena = d->builder.arena;
    struct extent inner = {DIM_FFN, ffn}, hidden = diffusion_hidden(d);
    struct shape tokens = builder_shape(&d->builder, x), wide = tokens;
    wide.extents[d->builder.block->tensors[x].rank - 1] = inner;
    struct diffusion_linear up = {.name = arena_print(arena, "%s.up", prefix),
                                  .weight = SHAPE(hidden, inner),
                                  .bias = SHAPE(inner),
                                  .output = wide,
                                  .class = OP_CLASS_MLP};
    struct diffusion_linear down = {.name = arena_print(arena, "%s.down", prefix),
                                    .weight = SHAPE(inner, hidden),
                                    .bias = SHAPE(hidden),
                                    .output = tokens};
    const char *name = arena_print(arena, "%s.activation", prefix);
    x = diffusion_apply(d, name, diffusion_project(d, x, up), FUNCTION_GELU_TANH);
    d->builder.block->ops[d->builder.block->op_count - 1].class = OP_CLASS_ACTIVATION;
    return diffusion_project(d, x, down);
}

// The log-sum-exp has what queries have but for the width of a head.
int diffusion_attend(struct diffusion *d, const char *prefix, int query, int key, int value)
{
    struct arena *arena = d->builder.arena;
    struct shape shape = builder_shape(&d->builder, query), rows = shape;
    int rank = d->builder.block->tensors[query].rank;
    assert(rank > 1 && shape.extents[rank - 1].size > 0);
    rows.extents[rank - 1] = (struct extent){DIM_NONE, 0};
    int lse = builder_tensor(&d->builder, arena_print(arena, "%s.lse", prefix), TENSOR_ACTIVATION,
                             ELEMENT_FP32, rows);
    struct op op = {.name = arena_print(arena, "%s.core", prefix),
                    .kind = OP_ATTENTION,
                    .class = OP_CLASS_ATTENTION,
                    .scalar = 1 / sqrt((double)shape.extents[rank - 1].size),
                    .input_count = 3,
                    .inputs = {query, key, value},
                    .output_count = 2,
                    .outputs = {-1, lse}};
    return diffusion_append(d, op, shape);
}

void diffusion_end(struct diffusion *d, int x, int target, struct shape rows)
{
    struct op op = {.name = "loss",
                    .kind = OP_LOSS,
                    .function = FUNCTION_SQUARED_ERROR,
                    .scalar = 1,
                    .flop_per_element = LOSS_FLOP,
                    .input_count = 2,
                    .inputs = {x, target},
                    .output_count = 1};
    op.outputs[0] = builder_tensor(&d->builder, "loss", TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    builder_op(&d->builder, op);
    struct block *block = d->builder.block;
    block->outputs[block->output_count++] = op.outputs[0];
}
