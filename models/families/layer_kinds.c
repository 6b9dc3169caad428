#include "models/families/layer_kinds.h"

#include "models/families/handed.h"

#include <assert.h>

bool layer_has_window(const struct decoder *decoder, int64_t layer)
{
    return decoder->window > 0 && (!decoder->has_window || decoder->has_window[layer]);
}

static bool has_experts(const struct decoder *decoder, int64_t layer)
{
    const struct experts *experts = &decoder->experts;
    return experts->count > 0 && !(experts->is_dense && experts->is_dense[layer]);
}

static bool is_unrotated(const struct decoder *decoder, int64_t layer)
{
    return decoder->is_unrotated && decoder->is_unrotated[layer];
}

static unsigned parts_of(const struct decoder *decoder, int64_t layer)
{
    return decoder->parts ? decoder->parts[layer] : LAYER_PARTS_COMMON;
}

struct layer_kind layer_kind_at(const struct decoder *d, int64_t layer)
{
    unsigned parts = parts_of(d, layer);
    assert(layer >= 0 && layer < d->layer_count && parts > 0);
    bool attends = parts & LAYER_ATTENTION;
    bool says = d->contrast.width > 0 && d->picture.patch_count > 0;
    return (struct layer_kind){
        .is_mixture = parts & LAYER_MLP && has_experts(d, layer),
        .is_local = attends && layer_has_window(d, layer),
        .is_unrotated = attends && is_unrotated(d, layer),
        .is_apart = layer < d->apart_count,
        .is_last = (decoder_asks_encoder(d) || d->norm_in_last || d->last_out_bias || says) &&
                   layer + 1 == d->layer_count,
        .is_first = d->first_is_unnormed && layer == 0,
        .is_sparse = d->altup.is_sparse && d->altup.is_sparse[layer],
        .is_hashed = d->experts.is_hashed && d->experts.is_hashed[layer],
        .pooling = d->pooled.kinds ? (enum pooling)d->pooled.kinds[layer] : POOLING_NONE,
        .takes_keys = handed_keys(d, layer),
        .takes = handed_on(d, layer - 1),
        .gives = handed_on(d, layer),
        .parts = parts};
}

// But for rope.
// Blocks that differ in any of this would have other operators, or other inputs and outputs.
static bool is_alike(const struct layer_kind *a, const struct layer_kind *b)
{
    return a->is_mixture == b->is_mixture && a->is_local == b->is_local &&
           a->is_last == b->is_last && a->is_first == b->is_first && a->is_apart == b->is_apart &&
           a->is_sparse == b->is_sparse && a->parts == b->parts && a->takes_keys == b->takes_keys &&
           a->is_hashed == b->is_hashed && a->pooling == b->pooling && a->takes == b->takes &&
           a->gives == b->gives;
}

bool layer_kind_is_same(const struct layer_kind *a, const struct layer_kind *b)
{
    return is_alike(a, b) && a->is_unrotated == b->is_unrotated;
}

// Whether a layer that is like this one but for rope has another name: most models with both turn
// them with the window, and the names of windows tell them apart.
static bool has_rotated_twin(const struct decoder *d, const struct layer_kind *kind)
{
    for (int64_t i = 0; i < d->layer_count && kind->is_unrotated; i++) {
        struct layer_kind other = layer_kind_at(d, i);
        other.is_last = kind->is_last;
        if (is_alike(&other, kind) && !other.is_unrotated) return true;
    }
    return false;
}

// Of layers that lack parts which others have, those that are there; "" where all are alike.
static const char *parts_name(const struct decoder *d, unsigned parts)
{
    bool differ = false;
    for (int64_t i = 1; i < d->layer_count; i++)
        differ = differ || parts_of(d, i) != parts_of(d, 0);
    if (!differ || parts == LAYER_PARTS_COMMON) return "";
    if (parts & LAYER_SCAN) return parts & LAYER_ATTENTION ? ".mixed" : ".scan";
    return parts & LAYER_ATTENTION ? ".attention" : ".mlp";
}

// The common mlp has the plain name.
const char *layer_kind_name(const struct layers *layers, const struct layer_kind *kind)
{
    static const char *const NAMES[2][2] = {{"layer.dense", "layer.dense.local"},
                                            {"layer", "layer.local"}};
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    bool is_common = kind->is_mixture || d->experts.count == 0 || !(kind->parts & LAYER_MLP);
    const char *name =
        arena_print(arena, "%s%s%s", NAMES[is_common][kind->is_local], parts_name(d, kind->parts),
                    has_rotated_twin(d, kind) ? ".unrotated" : "");
    if (layers->stack) name = arena_print(arena, "%s.%s", layers->stack, name);
    if (kind->is_apart) name = arena_print(arena, "%s.apart", name);
    if (kind->is_first) name = arena_print(arena, "%s.first", name);
    // Layers that hand on other things are told apart by those, where any are; last, the end.
    if (kind->is_sparse) name = arena_print(arena, "%s.sparse", name);
    if (kind->pooling)
        name = arena_print(arena, "%s.%s", name,
                           kind->pooling == POOLING_CHOSEN ? "chosen" : "pooled");
    if (kind->is_hashed) name = arena_print(arena, "%s.hashed", name);
    if (kind->takes_keys) name = arena_print(arena, "%s.shared", name);
    if (layers->decoder->kv_shared_count > 0 || layers->decoder->indexer.is_shared)
        name = arena_print(arena, "%s.%u-%u", name, kind->takes, kind->gives);
    return kind->is_last ? arena_print(arena, "%s.last", name) : name;
}

bool layer_kind_any(const struct decoder *d, unsigned parts)
{
    for (int64_t i = 0; i < d->layer_count; i++) {
        if (parts_of(d, i) & parts) return true;
    }
    return false;
}
