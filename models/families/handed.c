#include "models/families/handed.h"

#include "models/families/layer_kinds.h"

#include <assert.h>

bool handed_keys(const struct decoder *d, int64_t layer)
{
    return layer >= d->layer_count - d->kv_shared_count;
}

// The last layer that makes keys of its own, of those with or without a window.
static int64_t source_of(const struct decoder *d, bool is_local)
{
    assert(d->kv_shared_count >= 0 && d->kv_shared_count <= d->layer_count);
    int64_t layer = d->layer_count - d->kv_shared_count - 1;
    while (layer >= 0 && layer_has_window(d, layer) != is_local)
        layer--;
    return layer;
}

static bool is_asked_behind(const struct decoder *d, int64_t layer, bool is_local)
{
    for (int64_t i = d->layer_count - 1; i > layer && handed_keys(d, i); i--) {
        if (layer_has_window(d, i) == is_local) return true;
    }
    return false;
}

unsigned handed_on(const struct decoder *d, int64_t layer)
{
    assert(layer >= -1 && layer < d->layer_count);
    unsigned streams = d->altup.stream_count > 0 ? HANDED_STREAMS : 0;
    if (layer + 1 >= d->layer_count) return streams;
    unsigned handed = streams | (d->per_layer_width > 0 ? HANDED_EMBEDDED : 0);
    for (int is_local = 0; is_local < 2 && d->kv_shared_count > 0; is_local++) {
        bool is_made = layer >= 0 && layer >= source_of(d, is_local);
        if (is_made && is_asked_behind(d, layer, is_local))
            handed |= is_local ? HANDED_LOCAL : HANDED_GLOBAL;
    }
    const bool *shares_chosen = d->indexer.is_shared;
    return shares_chosen && shares_chosen[layer + 1] ? handed | HANDED_CHOSEN : handed;
}

const struct decoder *handed_make(struct arena *arena, const struct decoder *d, bool is_local,
                                  bool takes_keys)
{
    const struct global_heads *global = &d->global;
    bool is_wide = takes_keys && d->kv_shared_ffn > 0, is_other = !is_local && global->head_dim > 0;
    if (!is_wide && !is_other) return d;
    struct decoder *make = ARENA_NEW(arena, struct decoder, 1);
    *make = *d;
    if (is_wide) make->ffn = d->kv_shared_ffn;
    if (!is_other) return make;
    assert(d->head_count % global->kv_head_count == 0);
    make->head_dim = global->head_dim;
    make->kv_head_count = global->kv_head_count;
    make->rotary_dims = global->rotary_dims;
    make->key_is_value = global->key_is_value;
    return make;
}

static int take(struct layers *layers, const char *name, enum element element, struct shape shape)
{
    struct block *block = layers->builder.block;
    assert(block->input_count < BLOCK_EDGES);
    int input = builder_tensor(&layers->builder, name, TENSOR_ACTIVATION, element, shape);
    return block->inputs[block->input_count++] = input;
}

static void take_keys(struct layers *layers, bool is_local)
{
    const struct decoder *of =
        handed_make(layers->builder.arena, layers->whole, is_local, layers->takes_keys);
    struct shape shape = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_KV_HEAD, of->kv_head_count},
                               {DIM_HEAD_DIM, of->head_dim});
    layers->keys[is_local] =
        take(layers, is_local ? "layer.local_keys" : "layer.keys", ELEMENT_COMPUTE, shape);
    layers->values[is_local] =
        take(layers, is_local ? "layer.local_values" : "layer.values", ELEMENT_COMPUTE, shape);
}

void layers_take(struct layers *layers, unsigned handed)
{
    struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden};
    struct shape rows = layers_tokens(DIM_HIDDEN, hidden.size);
    struct shape streams = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0},
                                 {DIM_STREAM, layers->decoder->altup.stream_count}, hidden);
    if (handed & HANDED_STREAMS)
        layers->streams = take(layers, "layer.streams", ELEMENT_COMPUTE, streams);
    if (handed & HANDED_EMBEDDED)
        layers->embedded = take(layers, "layer.embedded", ELEMENT_COMPUTE, rows);
    if (handed & HANDED_LOCAL) take_keys(layers, true);
    if (handed & HANDED_GLOBAL) take_keys(layers, false);
    layers->takes_chosen = handed & HANDED_CHOSEN;
    if (!layers->takes_chosen) return;
    layers->chosen = take(layers, "layer.chosen", ELEMENT_FP32,
                          layers_tokens(DIM_CHOSEN, layers->decoder->indexer.top_k));
}

static void give(struct layers *layers, int tensor)
{
    struct block *block = layers->builder.block;
    assert(block->output_count < BLOCK_EDGES && tensor >= 0);
    block->outputs[block->output_count++] = tensor;
}

void layers_give(struct layers *layers, unsigned handed)
{
    if (handed & HANDED_STREAMS) give(layers, layers->streams);
    if (handed & HANDED_EMBEDDED) give(layers, layers->embedded);
    for (int is_local = 1; is_local >= 0; is_local--) {
        if (!(handed & (is_local ? HANDED_LOCAL : HANDED_GLOBAL))) continue;
        give(layers, layers->keys[is_local]);
        give(layers, layers->values[is_local]);
    }
    if (handed & HANDED_CHOSEN) give(layers, layers->chosen);
}
