#include "models/families/layers.h"

#include <assert.h>

// Work an element, for ops that are bound by memory: it only has to be of the right size.
static const double ROPE_FLOP = 6, NORM_FLOP = 6, ACTIVATION_FLOP = 8, SCALE_FLOP = 1;

struct shape layers_tokens(enum dim dim, int64_t size)
{
    assert(dim != DIM_NONE && size > 0);
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {dim, size});
}

int layers_data(struct layers *layers, const char *name, enum element element, struct shape shape)
{
    return builder_tensor(&layers->builder, name, TENSOR_IDS, element, shape);
}

int layers_activation(struct layers *layers, const char *name, struct shape shape)
{
    int index = builder_tensor(&layers->builder, name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    struct tensor *tensor = &layers->builder.block->tensors[index];
    const struct experts *experts = &layers->decoder->experts;
    if (tensor_find_dim(tensor, DIM_EXPERT) >= 0) {
        assert(experts->top_k > 0 && experts->top_k <= experts->count);
        tensor->density = (double)experts->top_k / (double)experts->count;
    }
    return index;
}

void layers_set_class(struct layers *layers, enum op_class class)
{
    struct block *block = layers->builder.block;
    assert(block->op_count > 0);
    block->ops[block->op_count - 1].class = class;
}

int layers_parameter(struct layers *layers, const char *name, const char *suffix,
                     struct shape shape, const char *tie)
{
    int index = builder_parameter(&layers->builder, name, suffix, shape);
    struct tensor *tensor = &layers->builder.block->tensors[index];
    bool is_of_all = layers->decoder->layers_are_one && layers->builder.block->role == BLOCK_LAYER;
    if (is_of_all && !tie) tie = arena_print(layers->builder.arena, "layers.%s", tensor->name);
    tensor->tie = tie;
    return index;
}

int layers_add(struct layers *layers, const char *name, int a, int b)
{
    int sum = layers_activation(layers, name, builder_shape(&layers->builder, a));
    struct op op = {.name = name,
                    .kind = OP_ADD,
                    .scalar = 1,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {a, b},
                    .outputs = {sum}};
    builder_op(&layers->builder, op);
    return sum;
}

int layers_add_sinusoids(struct layers *layers, int x)
{
    bool is_shifted = layers->decoder->sinusoids == SINUSOIDS_SHIFTED;
    struct shape rows = SHAPE({DIM_SEQ, 0}, {DIM_HIDDEN, layers->decoder->hidden});
    int waves =
        layers_data(layers, is_shifted ? "shifted_sinusoids" : "sinusoids", ELEMENT_COMPUTE, rows);
    return layers_add(layers, "embedding.positioned", x, waves);
}

// The dims past batch and seq: the shape of a bias.
static struct shape features(struct shape tokens)
{
    int first = tokens.extents[1].dim == DIM_SEQ ? 2 : 1;
    assert(tokens.extents[0].dim == DIM_BATCH);
    struct shape shape = {0};
    for (int i = first; i < TENSOR_RANK_MAX; i++)
        shape.extents[i - first] = tokens.extents[i];
    return shape;
}

// Weights of projections that share their input lie output by output, so that those of all of them,
// one behind another, are one matrix (plan/lower/merged.h).
static struct shape by_output(const struct projection *projection)
{
    const struct extent *extents = projection->weight.extents;
    struct shape shape = projection->weight;
    if (projection->merge == 0 || extents[0].dim == DIM_EXPERT) return shape;
    int rank = 0;
    while (rank < TENSOR_RANK_MAX && extents[rank].dim)
        rank++;
    assert(rank >= 2);
    for (int i = 0; i < rank; i++)
        shape.extents[i] = extents[(i + 1) % rank];
    return shape;
}

int layers_project(struct layers *layers, int input, struct projection projection)
{
    // Parameters that layers share do not lie one behind another.
    if (layers->decoder->layers_are_one) projection.merge = 0;
    if (projection.groups > 1) return layers_project_groups(layers, input, projection);
    int weight =
        layers_parameter(layers, projection.name, "weight", by_output(&projection), projection.tie);
    return layers_product(layers, input, weight, projection);
}

int layers_product(struct layers *layers, int input, int weight, struct projection projection)
{
    int output = layers_activation(layers, projection.name, projection.output);
    struct op op = {.name = projection.name,
                    .kind = OP_CONTRACT,
                    .scalar = 1,
                    .merge = projection.merge,
                    .class = projection.class,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {input, weight},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return layers_add_bias(layers, output, &projection);
}

int layers_add_bias(struct layers *layers, int output, const struct projection *projection)
{
    if (!projection->bias) return output;
    struct shape shape = features(projection->output);
    int bias = layers_parameter(layers, projection->name, "bias", shape, NULL);
    const char *name = arena_print(layers->builder.arena, "%s.biased", projection->name);
    output = layers_add(layers, name, output, bias);
    layers_set_class(layers, projection->class);
    return output;
}

static struct op norm_op(struct layers *layers, const char *name, int input, enum function function)
{
    assert(layers->decoder->norm_epsilon >= 0);
    return (struct op){.name = name,
                       .kind = OP_NORM,
                       .function = function,
                       .scalar = layers->decoder->norm_epsilon,
                       .flop_per_element = NORM_FLOP,
                       .class = OP_CLASS_NORM,
                       .input_count = 1,
                       .output_count = 1,
                       .inputs = {input}};
}

static int append_norm(struct layers *layers, struct op op)
{
    struct shape shape = builder_shape(&layers->builder, op.inputs[0]);
    op.outputs[0] = layers_activation(layers, op.name, shape);
    builder_op(&layers->builder, op);
    return op.outputs[0];
}

static int norm(struct layers *layers, const char *name, int input, enum function function,
                bool is_plain, struct shape last)
{
    struct op op = norm_op(layers, name, input, function);
    if (!is_plain) {
        op.inputs[op.input_count++] = layers_parameter(layers, name, "weight", last, NULL);
        if (function == FUNCTION_LAYER_NORM && !layers->decoder->norm_is_unbiased) {
            op.inputs[op.input_count++] = layers_parameter(layers, name, "bias", last, NULL);
        }
    }
    return append_norm(layers, op);
}

int layers_norm_plain(struct layers *layers, const char *name, int input, enum function function,
                      double epsilon)
{
    assert(epsilon > 0);
    struct op op = norm_op(layers, name, input, function);
    op.scalar = epsilon;
    return append_norm(layers, op);
}

int layers_norm_by(struct layers *layers, const char *name, int input, int weight)
{
    struct op op = norm_op(layers, name, input, layers->decoder->norm);
    op.inputs[op.input_count++] = weight;
    return append_norm(layers, op);
}

int layers_norm(struct layers *layers, const char *name, int input, enum function function)
{
    const struct tensor *tensor = &layers->builder.block->tensors[input];
    struct shape last = SHAPE(tensor->extents[tensor->rank - 1]);
    return norm(layers, name, input, function, layers->decoder->norm_is_plain, last);
}

int layers_head_norm(struct layers *layers, const char *name, int input)
{
    const struct decoder *d = layers->decoder;
    bool is_plain = d->norm_is_plain || d->head_norms_plain;
    const struct tensor *tensor = &layers->builder.block->tensors[input];
    struct shape width = SHAPE(tensor->extents[3]);
    if (d->head_norms_whole) width = SHAPE(tensor->extents[2], tensor->extents[3]);
    assert(tensor->rank == 4 && !(d->head_norms_whole && is_plain));
    enum function function = d->head_norms_layer ? FUNCTION_LAYER_NORM : FUNCTION_RMS_NORM;
    return norm(layers, name, input, function, is_plain, width);
}

int layers_context_norm(struct layers *layers, const char *name, int input)
{
    const struct tensor *tensor = &layers->builder.block->tensors[input];
    struct shape width = SHAPE(tensor->extents[2], tensor->extents[3]);
    int output = norm(layers, name, input, FUNCTION_RMS_NORM, false, width);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].groups = 1;
    return output;
}

int layers_norm_over(struct layers *layers, const char *name, int input, struct shape last)
{
    return norm(layers, name, input, FUNCTION_RMS_NORM, last.extents[0].dim == DIM_NONE, last);
}

int layers_gather(struct layers *layers, const char *name, int ids, struct extent rows,
                  struct extent width, const char *tie)
{
    assert(rows.size > 0 && width.size > 0);
    int table = layers_parameter(layers, name, "weight", SHAPE(rows, width), tie);
    struct shape shape = builder_shape(&layers->builder, ids);
    shape.extents[layers->builder.block->tensors[ids].rank] = width;
    int output = layers_activation(layers, name, shape);
    struct op op = {.name = name,
                    .kind = OP_GATHER,
                    .scalar = 1,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {ids, table},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

static double flop_of(enum function function)
{
    if (function_is_rope(function)) return ROPE_FLOP;
    return function == FUNCTION_SCALE || function == FUNCTION_RELU ? SCALE_FLOP : ACTIVATION_FLOP;
}

// The result has the shape of what is last: a gate in front may be narrower.
static struct op element_wise(struct layers *layers, const char *name, int input,
                              enum function function, double scalar)
{
    int output = layers_activation(layers, name, builder_shape(&layers->builder, input));
    return (struct op){.name = name,
                       .kind = OP_ELEMENTWISE,
                       .function = function,
                       .scalar = scalar,
                       .flop_per_element = flop_of(function),
                       .input_count = 1,
                       .output_count = 1,
                       .inputs = {input},
                       .outputs = {output}};
}

int layers_function(struct layers *layers, const char *name, int input, enum function function,
                    double scalar)
{
    struct op op = element_wise(layers, name, input, function, scalar);
    builder_op(&layers->builder, op);
    return op.outputs[0];
}

int layers_gate(struct layers *layers, const char *name, int gate, int up, enum function function,
                double scalar)
{
    struct op op = element_wise(layers, name, up, function, scalar);
    op.inputs[0] = gate;
    op.inputs[op.input_count++] = up;
    builder_op(&layers->builder, op);
    return op.outputs[0];
}

// An einsum cannot name what it reads and what it makes alike, nor can a product of a tensor with
// itself: one of them changes its names first.
int layers_rename(struct layers *layers, const char *name, int input, struct shape shape)
{
    int output = layers_activation(layers, name, shape);
    struct op op = {.name = name,
                    .kind = OP_EXPAND,
                    .scalar = 1,
                    .input_count = 1,
                    .output_count = 1,
                    .inputs = {input},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

int layers_flatten(struct layers *layers, const char *name, int input, struct shape shape)
{
    int output = layers_rename(layers, name, input, shape);
    layers->builder.block->ops[layers->builder.block->op_count - 1].kind = OP_FLATTEN;
    return output;
}

int layers_concat(struct layers *layers, const char *name, int a, int b, struct shape shape)
{
    int output = layers_activation(layers, name, shape);
    struct op op = {.name = name,
                    .kind = OP_CONCAT,
                    .scalar = 1,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {a, b},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

int layers_dropout(struct layers *layers, const char *name, int input, double ratio)
{
    if (ratio <= 0 || !layers->options.dropout) return input;
    struct shape shape = builder_shape(&layers->builder, input);
    assert(ratio < 1);
    const char *mask_name = arena_print(layers->builder.arena, "%s.mask", name);
    int output = layers_activation(layers, name, shape);
    int mask = builder_tensor(&layers->builder, mask_name, TENSOR_ACTIVATION, ELEMENT_BYTE, shape);
    struct op op = {.name = name,
                    .kind = OP_DROPOUT,
                    .scalar = 1,
                    .dropout_ratio = ratio,
                    .flop_per_element = SCALE_FLOP,
                    .input_count = 1,
                    .output_count = 2,
                    .inputs = {input},
                    .outputs = {output, mask}};
    builder_op(&layers->builder, op);
    return output;
}

int layers_activate(struct layers *layers, const char *name, int gate, int up)
{
    const struct decoder *d = layers->decoder;
    if (d->activation_is_xielu) return layers_xielu(layers, name, up);
    double scalar = d->activation_scalar > 0 ? d->activation_scalar : 1;
    enum function function = d->activation;
    if (layers->clamp > 0) {
        function = FUNCTION_CLAMPED_SILU;
        scalar = layers->clamp;
    }
    assert(gate >= 0 || layers->clamp <= 0);
    int output = gate >= 0 ? layers_gate(layers, name, gate, up, function, scalar)
                           : layers_function(layers, name, up, d->activation, scalar);
    layers_set_class(layers, OP_CLASS_ACTIVATION);
    return output;
}

int layers_named_mlp(struct layers *layers, const char *name, int input, int64_t ffn, int merge)
{
    assert(ffn > 0);
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    const char *activation_name = arena_print(arena, "%s.activation", name);
    struct projection up = {.name = arena_print(arena, "%s.up", name),
                            .weight = SHAPE({DIM_HIDDEN, d->hidden}, {DIM_FFN, ffn}),
                            .output = layers_tokens(DIM_FFN, ffn),
                            // A norm of the gate that ranks share meets rows without gaps.
                            .merge = d->gated && !layers->is_sparse ? merge : 0,
                            .bias = d->mlp_bias,
                            .groups = d->groups.up,
                            .class = OP_CLASS_MLP};
    struct projection gate = up;
    gate.name = arena_print(arena, "%s.gate", name);
    struct projection down = {.name = arena_print(arena, "%s.down", name),
                              .weight = SHAPE({DIM_FFN, ffn}, {DIM_HIDDEN, d->hidden}),
                              .output = layers_tokens(DIM_HIDDEN, d->hidden),
                              .bias = d->mlp_bias || d->down_bias,
                              .groups = d->groups.down};
    int gated = d->gated ? layers_project(layers, input, gate) : -1;
    int raised = layers_project(layers, input, up);
    if (layers->is_sparse) gated = layers_most_active(layers, gated);
    int active = layers_activate(layers, activation_name, gated, raised);
    const char *dropout = arena_print(arena, "%s.activation_dropout", name);
    active = layers_dropout(layers, dropout, active, d->ffn_dropout);
    if (d->inner_norms)
        active = layers_norm(layers, arena_print(arena, "%s.inner_norm", name), active, d->norm);
    return layers_project(layers, active, down);
}

int layers_mlp(struct layers *layers, int input)
{
    return layers_named_mlp(layers, "mlp", input, layers->decoder->ffn, 2);
}
