#pragma once
#include "models/families/diffusion.h"
#include "models/families/unet.h"

// What the blocks of a unet are made of.

// The step's vector, the state, and what was kept on the way down, the first of it first. A block
// on the way down hands on what it was given as kept; one on the way up what it has not joined.
enum { UNET_STATE, UNET_VECTOR, UNET_KEPT };

// Where a block stands: its level, and the channels of what is kept in front of it.
struct unet_place {
    int level;         // 0 the largest
    int64_t channels;  // of the state
    int kept_count;
    int64_t kept[BLOCK_EDGES];  // channels of each
    int kept_level[BLOCK_EDGES];
};

struct unet_building {
    struct diffusion of;
    const struct unet *model;
    struct unet_place *at;
    int edges[BLOCK_EDGES];
    int active;  // of the vector, once it is asked for
};

int64_t unet_side(const struct unet *model, int level);
struct shape unet_image(const struct unet *model, int level, int64_t channels);
double unet_elements(struct shape shape);
// A convolution with a bias, of square taps, padded so that the stride alone makes it smaller.
int unet_convolve(struct unet_building *b, const char *name, int x, int64_t channels, int64_t out,
                  int64_t taps, int64_t stride);
// An operator of images that is no product.
int unet_operate(struct unet_building *b, struct op op, enum imported_kind type,
                 struct shape shape);
// silu of a norm of groups of channels
int unet_normed(struct unet_building *b, const char *name, int x);
// Two convolutions beside the state, or beside one of one tap where the channels change.
int unet_residual(struct unet_building *b, const char *prefix, int x, int64_t channels,
                  int64_t out);
int unet_flatten(struct unet_building *b, const char *name, int x, struct shape shape);
// Places become tokens in the product in front of the layers, and places again in that behind them.
int unet_transform(struct unet_building *b, const char *prefix, int x, int level, int text);
