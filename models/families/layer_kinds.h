#pragma once
#include "models/families/layers.h"

// What tells the layers of a decoder apart: parts, window, rope, mlp or experts, and which is the
// last beside an encoder. Layers that are alike are one block.
struct layer_kind {
    bool is_mixture, is_local, is_unrotated;
    bool is_apart;  // does not attend to the encoder
    bool is_last;   // of all, where that is unlike the others
    bool is_first;  // where the first is unlike the others
    unsigned parts;
    bool is_sparse;   // the gate of its mlp
    bool takes_keys;  // and what it gets and hands on: models/families/handed.h
    unsigned takes, gives;
    bool is_hashed;  // the choice of its experts
    enum pooling pooling;
    int block;  // of those that are alike
};
enum { LAYER_KINDS_MAX = 24 };
// Those of layers of which nothing is said.
enum { LAYER_PARTS_COMMON = LAYER_ATTENTION | LAYER_MLP };

struct layer_kind layer_kind_at(const struct decoder *d, int64_t layer);
bool layer_kind_is_same(const struct layer_kind *a, const struct layer_kind *b);
// The name of its block; the common mlp has the plain one.
const char *layer_kind_name(const struct layers *layers, const struct layer_kind *kind);
bool layer_has_window(const struct decoder *d, int64_t layer);
// Whether some layer has one of these parts.
bool layer_kind_any(const struct decoder *d, unsigned parts);
