#pragma once
#include <stdint.h>

// A window that slides over one dimension of an image: place o of the narrow side (the result of a
// convolution or a pool) goes with the places o * stride - pad + dilation * tap of the wide side.
struct window {
    int64_t taps, stride, dilation, pad;  // taps 0: there is none
};
enum { WINDOW_DIMS = 2 };  // height, width

// What an operator of an imported graph does over the places of an image.
enum places {
    PLACES_WHOLE,       // needs all of them
    PLACES_EACH,        // works on each alone, or adds them up where the result has none
    PLACES_WINDOW,      // convolution, pool: the result is the narrow side of `windows`
    PLACES_TURNED,      // transposed convolution: the result is the wide side
    PLACES_STATISTICS,  // each with statistics over all of them, which are its further outputs
    PLACES_COUNT
};
const char *places_name(enum places places);  // "whole", "each", ...; models/op_image.c
