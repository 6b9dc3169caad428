#pragma once
#include "executor/array.h"
#include "executor/planes.h"

// Which images the arrays of a call are, alike for all back ends.

static inline bool dim_is_channel(enum dim dim)
{
    return dim == DIM_CHANNEL || dim == DIM_VOCAB || dim == DIM_OUT_CHANNEL;
}

// NULL, or why the array is none.
static inline const char *image_read(const struct kernel_array *array, struct planes *image)
{
    *image = (struct planes){.data = array->data,
                             .batch = 1,
                             .channels = 1,
                             .height = 1,
                             .width = 1,
                             .whole_height = 1,
                             .whole_width = 1};
    int channels = 0;
    for (int i = 0; i < array->rank; i++) {
        int64_t stride = array_stride(array, i);
        enum dim dim = array->dims[i];
        if (dim == DIM_BATCH) {
            image->batch = array->sizes[i];
            image->sample_stride = stride;
        } else if (dim == DIM_HEIGHT) {
            image->height = array->sizes[i];
            image->row = array->first[i];
            image->whole_height = array->whole[i];
            image->row_stride = stride;
        } else if (dim == DIM_WIDTH) {
            image->width = array->sizes[i];
            image->column = array->first[i];
            image->whole_width = array->whole[i];
            image->column_stride = stride;
        } else if (dim_is_channel(dim) && !channels++) {
            image->channels = array->sizes[i];
            image->channel_stride = stride;
        } else if (array->sizes[i] != 1) {
            return "images have samples, channels, rows and columns";
        }
    }
    return NULL;
}

static inline int64_t image_elements(const struct planes *image)
{
    return image->batch * image->channels * image->height * image->width;
}

// What has one place, or one channel, is repeated.
static inline void image_repeat(struct planes *small, const struct planes *large)
{
    if (small->whole_height == 1 && large->whole_height > 1) small->row_stride = 0;
    if (small->whole_width == 1 && large->whole_width > 1) small->column_stride = 0;
    if (small->channels == 1 && large->channels > 1) small->channel_stride = 0;
}

// Of a side that has none of the dimension: one place, one tap.
static inline struct window window_or_one(const struct window *window)
{
    return window->taps > 0 ? *window : (struct window){1, 1, 1, 0};
}
