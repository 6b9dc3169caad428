#include "models/families/layers.h"

#include <assert.h>

// Pictures as sequences of patches (Dosovitskiy et al. 2021, section 3.1). The convolution of ViT
// has windows that do not overlap: it is the product of a patch's pixels with one matrix.

static int add_class(struct layers *layers, int x)
{
    struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden}, one = {DIM_TABLE, 1};
    int first = layers_data(layers, "first_place", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}, one));
    struct projection token = {.name = "embedding.class",
                               .weight = SHAPE(one, hidden),
                               .output = SHAPE({DIM_SEQ, 0}, hidden)};
    return layers_add(layers, "embedding.classed", x, layers_project(layers, first, token));
}

// Registers that are rows of the table of positions alone take neither row of kinds.
static int add_parts(struct layers *layers, int x)
{
    struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden}, two = {DIM_TABLE, 2};
    int parts = layers_data(layers, "place_parts", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}, two));
    struct projection kind = {.name = "embedding.kind",
                              .weight = SHAPE(two, hidden),
                              .output = SHAPE({DIM_SEQ, 0}, hidden)};
    return layers_add(layers, "embedding.classed", x, layers_project(layers, parts, kind));
}

// The class token stands at a place of its own, whose pixels are zeros. What it is made of and what
// is added to every patch are the first and last row of one table: place 0 takes the first, patches
// the last, registers those between. So the sequence is whole from the start, with as many
// parameters.
int layers_picture(struct layers *layers)
{
    assert(layers->decoder->picture.pixel_count > 0);
    const struct decoder *d = layers->decoder;
    struct extent pixels = {DIM_CHANNEL, d->picture.pixel_count}, hidden = {DIM_HIDDEN, d->hidden};
    int picture = layers_data(layers, d->picture.is_pooled ? "patches" : "pixels", ELEMENT_COMPUTE,
                              SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, pixels));
    struct projection in = {.name = "embedding.patch",
                            .weight = SHAPE(pixels, hidden),
                            .output = layers_tokens(DIM_HIDDEN, d->hidden),
                            .bias = d->picture.patch_is_biased};
    int x = layers_project(layers, picture, in);
    if (d->picture.is_pooled) return x;
    if (d->picture.has_plain_class) return add_class(layers, x);
    bool has_kinds = d->picture.registers_have_kinds;
    if (d->picture.register_count > 0 && !has_kinds) return add_parts(layers, x);
    int kinds = layers_data(layers, "place_kinds", ELEMENT_INT64, SHAPE({DIM_SEQ, 0}));
    struct extent rows = {DIM_TABLE, 1 + decoder_front_count(d)};
    int kind = layers_gather(layers, "embedding.kind", kinds, rows, hidden, NULL);
    return layers_add(layers, "embedding.classed", x, kind);
}

// The class token is taken by a sum over the places with factors that come with the data: one for
// the first, zeros. A rank with some of the places has a part of it.
// Where the head reads the mean of the patches as well, these factors are two.
int layers_pool(struct layers *layers, int input)
{
    const struct decoder *d = layers->decoder;
    struct extent two = {DIM_TABLE, 2}, hidden = {DIM_HIDDEN, d->hidden};
    if (d->picture.reads_mean) {
        int parts = layers_data(layers, "place_means", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}, two));
        struct projection both = {.name = "head.pool",
                                  .output = SHAPE({DIM_BATCH, 0}, two, hidden)};
        return layers_product(layers, input, parts, both);
    }
    int first = layers_data(layers, "first_place", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}));
    struct projection pool = {.name = "head.pool", .output = SHAPE({DIM_BATCH, 0}, hidden)};
    return layers_product(layers, input, first, pool);
}

// Means over squares of patches, by factors that come with the data. Ranks share tokens as they do
// other places, so patches change their name before and tokens behind it. The products with these
// factors and with places are small beside any layer.
int layers_picture_tokens(struct layers *layers, int input, int64_t hidden)
{
    assert(layers->decoder->picture.token_count > 0);
    const struct decoder *d = layers->decoder;
    struct extent token = {DIM_SEQ, d->picture.token_count}, rank = {DIM_RANK, d->hidden};
    struct extent patch = {DIM_KV_SEQ, d->picture.patch_count}, own = {DIM_HIDDEN, d->hidden};
    struct extent wide = {DIM_HIDDEN, hidden};
    struct projection mean = {.name = "picture.mean", .output = SHAPE({DIM_BATCH, 0}, token, own)};
    struct projection out = {.name = "picture.project",
                             .weight = SHAPE(rank, wide),
                             .output = SHAPE({DIM_BATCH, 0}, token, wide),
                             .bias = d->picture.token_bias};
    int x = layers_norm(layers, "vision.norm", input, d->norm);
    if (token.size != patch.size) {
        x = layers_rename(layers, "picture.patches", x, SHAPE({DIM_BATCH, 0}, patch, own));
        int shares = layers_data(layers, "patch_shares", ELEMENT_COMPUTE, SHAPE(token, patch));
        x = layers_product(layers, x, shares, mean);
    }
    if (d->picture.token_norm) x = layers_norm(layers, "picture.norm", x, FUNCTION_RMS_NORM);
    x = layers_rename(layers, "picture.renamed", x, SHAPE({DIM_BATCH, 0}, token, rank));
    return layers_project(layers, x, out);
}

int layers_picture_placed(struct layers *layers, int tokens)
{
    assert(layers->decoder->prefix > 0);
    const struct decoder *text = layers->decoder;
    struct extent token = {DIM_KV_SEQ, text->prefix}, hidden = {DIM_HIDDEN, text->hidden};
    int places = layers_data(layers, "picture_places", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}, token));
    struct projection placed = {.name = "picture.placed",
                                .output = layers_tokens(DIM_HIDDEN, text->hidden)};
    tokens = layers_rename(layers, "picture.tokens", tokens, SHAPE({DIM_BATCH, 0}, token, hidden));
    return layers_product(layers, tokens, places, placed);
}

int64_t decoder_front_count(const struct decoder *d)
{
    if (d->picture.patch_count == 0 || d->picture.is_pooled) return 0;
    return 1 + d->picture.register_count;
}

int64_t decoder_place_count(const struct decoder *d)
{
    if (d->picture.patch_count == 0) return d->sound.place_count;
    return d->picture.patch_count + decoder_front_count(d);
}

void layers_fix_places(struct layers *layers)
{
    struct block *block = layers->builder.block;
    int64_t places = decoder_place_count(layers->decoder);
    for (int t = 0; t < block->tensor_count && places > 0; t++) {
        struct tensor *tensor = &block->tensors[t];
        for (int i = 0; i < tensor->rank; i++) {
            enum dim dim = tensor->extents[i].dim;
            bool is_place = dim == DIM_SEQ || dim == DIM_KV_SEQ;
            if (is_place && tensor->extents[i].size == 0) tensor->extents[i].size = places;
        }
    }
}
