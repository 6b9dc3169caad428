#include "models/families/layers.h"

#include <assert.h>

// The front of whisper (Radford et al. 2022, section 2.2): two convolutions over three frames each,
// the second of which moves by two. A product takes the bands of three frames and a number that is
// one, which stands for the bias. What the second one reads are three places of the first: the
// even frame, the odd one behind it, and the odd one in front, which is made once more from its own
// frames. In front of the first frame there is nothing: those numbers are all zeros, and so is what
// comes of them. Its function is gelu, whatever the layers have.

enum { WINDOW = 3 };

static int first_convolution(struct layers *layers, const char *name, int weight)
{
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct extent numbers = {DIM_TAP, WINDOW * d->sound.band_count + 1};
    int frames = layers_data(layers, arena_print(arena, "frames_%s", name), ELEMENT_COMPUTE,
                             SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, numbers));
    struct projection product = {.name = arena_print(arena, "embedding.first.%s", name),
                                 .output = layers_tokens(DIM_CHANNEL, d->hidden)};
    int x = layers_product(layers, frames, weight, product);
    const char *active = arena_print(arena, "embedding.first.%s.activation", name);
    return layers_function(layers, active, x, FUNCTION_GELU, 1);
}

int layers_sound(struct layers *layers)
{
    assert(layers->decoder->sound.band_count > 0);
    static const char *const PLACES[WINDOW] = {"before", "even", "odd"};
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct extent numbers = {DIM_TAP, WINDOW * d->sound.band_count + 1};
    struct extent channel = {DIM_CHANNEL, d->hidden}, hidden = {DIM_HIDDEN, d->hidden};
    int weight =
        layers_parameter(layers, "embedding.first", "weight", SHAPE(numbers, channel), NULL);
    int x = -1;
    for (int i = 0; i < WINDOW; i++) {
        struct projection product = {.name = arena_print(arena, "embedding.second.%s", PLACES[i]),
                                     .weight = SHAPE(channel, hidden),
                                     .output = layers_tokens(DIM_HIDDEN, d->hidden),
                                     .bias = i == 0};
        int of = layers_project(layers, first_convolution(layers, PLACES[i], weight), product);
        const char *sum = arena_print(arena, "embedding.second.with_%s", PLACES[i]);
        x = i == 0 ? of : layers_add(layers, sum, x, of);
    }
    return layers_function(layers, "embedding.second.activation", x, FUNCTION_GELU, 1);
}
