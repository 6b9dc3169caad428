#pragma once
#include "models/families/layers.h"

// What layers hand on to the one behind beside what they make of tokens, as edges of their blocks:
// what layers further behind ask for.
enum handed {
    HANDED_EMBEDDED = 1,  // the rows of the token table (decoder.per_layer_width)
    HANDED_LOCAL = 2,     // keys and values of a layer with a window (decoder.kv_shared_count)
    HANDED_GLOBAL = 4,    // of one without
    HANDED_CHOSEN = 8,    // the keys that an indexer chose (decoder.indexer): without a gradient
    HANDED_STREAMS = 16,  // states beside each token's own (decoder.altup), to the head as well
};

// The sum of what a layer hands on; of the embedding in front of the first one: layer -1.
unsigned handed_on(const struct decoder *decoder, int64_t layer);
// Whether a layer attends to keys and values of one in front of it.
bool handed_keys(const struct decoder *decoder, int64_t layer);
// What layers of this make are built from: those without a window may have other heads, and those
// that make no keys another mlp.
const struct decoder *handed_make(struct arena *arena, const struct decoder *decoder, bool is_local,
                                  bool takes_keys);

// Inputs and outputs of the block, in one order.
void layers_take(struct layers *layers, unsigned handed);
void layers_give(struct layers *layers, unsigned handed);
