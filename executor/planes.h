#pragma once
#include "models/window.h"

// An array of an imported operator as images: samples of channels of rows and columns, whatever its
// dims are called and in whatever order they stand. Scores have their classes innermost.

struct planes {
    void *data;
    int64_t batch, channels, height, width;  // here
    int64_t row, column;                     // where that begins in the whole
    int64_t whole_height, whole_width;
    int64_t sample_stride, channel_stride, row_stride, column_stride;
};

// How an image is resized, as the `scalar` of the operator says.
enum resizing { RESIZING_NEAREST, RESIZING_LINEAR, RESIZING_CORNERS };
