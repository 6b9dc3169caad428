#include "models/families/layers.h"

#include <assert.h>

// From what the last layer says to the loss.

static const double LOSS_FLOP = 5;

// The transform of a masked language model. An einsum cannot name its input and output alike, so
// the input of the dense layer is renamed.
int layers_masked_transform(struct layers *layers, int x)
{
    const struct decoder *d = layers->decoder;
    struct shape renamed = layers_tokens(DIM_RANK, d->hidden);
    struct projection dense = {.name = "head.transform",
                               .weight = SHAPE({DIM_RANK, d->hidden}, {DIM_HIDDEN, d->hidden}),
                               .output = layers_tokens(DIM_HIDDEN, d->hidden),
                               .bias = !d->masked_head_is_unbiased};
    if (d->embedding_is_narrow) {
        int64_t width = d->head_size ? d->head_size : d->embedding_size;
        dense.weight = SHAPE({DIM_HIDDEN, d->hidden}, {DIM_RANK, width});
        dense.output = layers_tokens(DIM_RANK, width);
    } else {
        x = layers_rename(layers, "head.renamed", x, renamed);
    }
    x = layers_project(layers, x, dense);
    x = layers_function(layers, "head.activation", x, d->activation, 1);
    return layers_norm(layers, "head.transform_norm", x, d->norm);
}

int layers_loss(struct layers *layers, const char *name, int scores, int labels,
                enum function function)
{
    struct builder *builder = &layers->builder;
    struct shape shape = builder_shape(builder, labels);
    const char *lse = arena_print(builder->arena, "%s.lse", name);
    int value = builder_tensor(builder, name, TENSOR_ACTIVATION, ELEMENT_FP32, shape);
    int sum = builder_tensor(builder, lse, TENSOR_ACTIVATION, ELEMENT_FP32, shape);
    struct op op = {.name = name,
                    .kind = OP_LOSS,
                    .function = function,
                    .scalar = 1,
                    .flop_per_element = LOSS_FLOP,
                    .input_count = 2,
                    .output_count = 2,
                    .inputs = {scores, labels},
                    .outputs = {value, sum}};
    builder_op(builder, op);
    return value;
}

// `prefix` tells the losses of one head apart.
static int next_loss(struct layers *layers, const char *prefix, int logits)
{
    struct arena *arena = layers->builder.arena;
    struct shape tokens = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0});
    if (layers->decoder->picture.patch_count > 0) tokens = SHAPE({DIM_BATCH, 0});
    int labels = layers_data(layers, arena_print(arena, "%slabels", prefix), ELEMENT_INT64, tokens);
    return layers_loss(layers, arena_print(arena, "%sloss", prefix), logits, labels, FUNCTION_NONE);
}

// From the normed hidden state to the loss.
int layers_score(struct layers *layers, const char *prefix, int x, int weight)
{
    assert(layers->vocab_padded >= layers->decoder->vocab && weight >= 0);
    const struct decoder *d = layers->decoder;
    struct projection lm = {.name = arena_print(layers->builder.arena, "%shead.lm", prefix),
                            .output = layers_tokens(DIM_VOCAB, layers->vocab_padded),
                            .bias = d->masked_head || d->head_bias};
    if (d->picture.patch_count > 0)
        lm.output = SHAPE({DIM_BATCH, 0}, {DIM_VOCAB, layers->vocab_padded});
    int logits = layers_product(layers, x, weight, lm);
    // A bias stands behind the product; no family has both.
    struct op *product = &layers->builder.block->ops[layers->builder.block->op_count - 1];
    if (d->logit_scale > 0 && !lm.bias) product->scalar = d->logit_scale;
    if (d->logit_softcap > 0) {
        const char *name = arena_print(layers->builder.arena, "%shead.softcap", prefix);
        logits = layers_function(layers, name, logits, FUNCTION_SOFTCAP, d->logit_softcap);
    }
    return next_loss(layers, prefix, logits);
}
