#include "models/families/layers.h"

#include <assert.h>
#include <math.h>

// Per-layer embeddings (gemma4): each layer has a narrow table of tokens of its own, joined with a
// projection of what the common table says of the token, and what the layer makes lets as much of
// that through as a gate says. In transformers the tables of all layers are one, and so are the
// projections; a layer reads its columns alone. The norm of what is projected is one for all
// layers.
static int say(struct layers *layers)
{
    assert(layers->decoder->per_layer_width > 0);
    const struct decoder *d = layers->decoder;
    struct extent width = {DIM_RANK, d->per_layer_width};
    struct extent rows = {DIM_VOCAB,
                          d->per_layer_vocab > 0 ? d->per_layer_vocab : layers->vocab_padded};
    layers->builder.block->vocab = d->per_layer_vocab;
    const char *name = d->per_layer_vocab > 0 ? "layer_token_ids" : "token_ids";
    int ids = layers_data(layers, name, ELEMENT_INT64, SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}));
    int own = layers_gather(layers, "own.token", ids, rows, width, NULL);
    own = layers_function(layers, "own.scale", own, FUNCTION_SCALE, sqrt((double)width.size));
    struct projection in = {.name = "own.told",
                            .weight = SHAPE({DIM_HIDDEN, d->hidden}, width),
                            .output = layers_tokens(DIM_RANK, width.size)};
    int told = layers_project(layers, layers->embedded, in);
    told = layers_norm(layers, "own.told_norm", told, d->norm);
    struct block *block = layers->builder.block;
    block->tensors[block->ops[block->op_count - 1].inputs[1]].tie = "layers.own.told_norm.weight";
    int both = layers_add(layers, "own.both", told, own);
    return layers_function(layers, "own.said", both, FUNCTION_SCALE, sqrt(0.5));
}

int layers_per_layer_branch(struct layers *layers, int x)
{
    const struct decoder *d = layers->decoder;
    struct extent width = {DIM_RANK, d->per_layer_width}, hidden = {DIM_HIDDEN, d->hidden};
    struct projection gate = {.name = "own.gate",
                              .weight = SHAPE(hidden, width),
                              .output = layers_tokens(DIM_RANK, width.size)};
    struct projection out = {.name = "own.out",
                             .weight = SHAPE(width, hidden),
                             .output = layers_tokens(DIM_HIDDEN, d->hidden)};
    int said = say(layers);
    int gated = layers_activate(layers, "own.activation", layers_project(layers, x, gate), said);
    int branch = layers_project(layers, gated, out);
    return layers_norm(layers, "own.norm", branch, d->norm);
}

int layers_per_layer(struct layers *layers, int x)
{
    return layers_add(layers, "own.residual", x, layers_per_layer_branch(layers, x));
}
