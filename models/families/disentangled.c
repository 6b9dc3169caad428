#include "models/families/layers.h"

#include <assert.h>
#include <string.h>

// Scores by content and distance (He et al. 2021, DeBERTa, section 3.1). One table has a row for
// each distance; each layer makes a key and a query of it. What a query says of the key of its
// distance to a token, and what that token's key says of the query of the distance, are added to
// its score. Each is made for all rows, from which those that pairs are apart are looked up.

static int find_parameter(const struct layers *layers, const char *name, const char *suffix)
{
    const struct block *block = layers->builder.block;
    const char *full = arena_print(layers->builder.arena, "%s.%s", name, suffix);
    for (int t = 0; t < block->tensor_count; t++) {
        if (strcmp(block->tensors[t].name, full) == 0) return t;
    }
    return -1;
}

// A key or query of every distance, (table, head, head_dim): by a matrix of its own, or by that of
// the tokens, which for keys counts heads otherwise.
static int project_rows(struct layers *layers, int rows, const char *name, const char *shared,
                        enum dim heads)
{
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct extent table = {DIM_TABLE, 2 * d->disentangled.span};
    struct extent width = {DIM_HEAD_DIM, d->head_dim};
    struct extent own = {DIM_HEAD, d->head_count}, of = {heads, d->head_count};
    if (!d->disentangled.shares) {
        struct projection projection = {.name = name,
                                        .weight = SHAPE({DIM_HIDDEN, d->hidden}, own, width),
                                        .output = SHAPE(table, own, width)};
        int made = layers_product(layers, rows,
                                  layers_parameter(layers, name, "weight", projection.weight, NULL),
                                  projection);
        if (heads == DIM_KV_HEAD && d->key_is_unbiased) return made;
        int bias = layers_parameter(layers, name, "bias", SHAPE(own, width), NULL);
        return layers_add(layers, arena_print(arena, "%s.biased", name), made, bias);
    }
    struct projection projection = {.name = name, .output = SHAPE(table, of, width)};
    int weight = find_parameter(layers, shared, "weight");
    int made = layers_product(layers, rows, weight, projection);
    int bias = find_parameter(layers, shared, "bias");
    assert(weight >= 0 && bias >= 0 && "those of the tokens stand in front");
    made = layers_add(layers, arena_print(arena, "%s.biased", name), made, bias);
    if (heads == DIM_HEAD) return made;
    return layers_rename(layers, arena_print(arena, "%s_heads", name), made,
                         SHAPE(table, own, width));
}

// One table for all layers, and one norm of it.
static int make_rows(struct layers *layers)
{
    static const char NAME[] = "attention.distances", NORM[] = "attention.distances_norm";
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct shape shape = SHAPE({DIM_TABLE, 2 * d->disentangled.span}, {DIM_HIDDEN, d->hidden});
    const char *tie = arena_print(arena, "layers.%s.weight", NAME);
    int rows = layers_parameter(layers, NAME, "weight", shape, tie);
    if (d->disentangled.is_normed) {
        rows = layers_norm(layers, NORM, rows, FUNCTION_LAYER_NORM);
        static const char *const PARTS[] = {"weight", "bias"};
        for (int i = 0; i < 2; i++) {
            int part = find_parameter(layers, NORM, PARTS[i]);
            assert(part >= 0);
            layers->builder.block->tensors[part].tie =
                arena_print(arena, "layers.%s.%s", NORM, PARTS[i]);
        }
    }
    return layers_dropout(layers, "attention.distances_dropout", rows, d->hidden_dropout);
}

// What `tokens`, (batch, its places, head, head_dim), say of each distance, and of that what each
// pair of a query and a key takes.
static int score_rows(struct layers *layers, const char *name, int rows, int tokens, int ids)
{
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct extent heads = {DIM_HEAD, d->head_count};
    struct shape of = builder_shape(&layers->builder, tokens);
    struct shape each =
        SHAPE({DIM_TABLE, 2 * d->disentangled.span}, {DIM_BATCH, 0}, heads, of.extents[1]);
    struct projection product = {.name = arena_print(arena, "%s.each", name), .output = each};
    int said = layers_product(layers, rows, tokens, product);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = d->score_factor;
    assert(of.extents[1].dim == DIM_SEQ || of.extents[1].dim == DIM_KV_SEQ);
    int keys = (int)block->tensors[ids].extents[1].size;
    struct shape pairs = SHAPE({DIM_BATCH, 0}, heads, {DIM_SEQ, 0}, {DIM_KV_SEQ, keys});
    int output = layers_activation(layers, name, pairs);
    struct op op = {.name = name,
                    .kind = OP_GATHER,
                    .scalar = (double)d->disentangled.distance,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {ids, said},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

struct distances layers_distances(struct layers *layers)
{
    const struct disentangled *of = &layers->decoder->disentangled;
    struct distances made = {-1, -1};
    if (of->span == 0) return made;
    int rows = make_rows(layers);
    if (of->by_query)
        made.key = project_rows(layers, rows, "attention.distance_k", "attention.k", DIM_KV_HEAD);
    if (of->by_key)
        made.query = project_rows(layers, rows, "attention.distance_q", "attention.q", DIM_HEAD);
    return made;
}

int layers_add_distances(struct layers *layers, int scores, struct distances made, int query,
                         int key)
{
    struct shape pairs = SHAPE({DIM_SEQ, 0}, {DIM_KV_SEQ, 0});
    if (made.key < 0 && made.query < 0) return scores;
    int ids = layers_data(layers, "distances", ELEMENT_INT64, pairs);
    if (made.key >= 0) {
        int added = score_rows(layers, "attention.by_query", made.key, query, ids);
        scores = layers_add(layers, "attention.scored_by_query", scores, added);
    }
    if (made.query < 0) return scores;
    int added = score_rows(layers, "attention.by_key", made.query, key, ids);
    return layers_add(layers, "attention.scored_by_key", scores, added);
}
