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
        } else if (dim == DIM_TABLE && i == 1 && array->dims[0] == DIM_BATCH) {
            // Parts of a sample, such as windows, that are images of their own.
            image->batch *= array->sizes[i];
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

// The sides of a product with a weight, which in backward are gradients as well: forward x, weight
// -> y; backward d_y, weight -> d_x, and x, d_y -> d_weight.
struct product_sides {
    const struct kernel_array *x, *weight, *y;
};
static inline struct product_sides product_sides(const struct kernel_call *call)
{
    const struct kernel_array *in = call->inputs, *made = &call->outputs[0];
    switch (call->op->phase) {
    case PHASE_BACKWARD:
        return (struct product_sides){made, &in[1], &in[0]};
    case PHASE_WEIGHT:
        return (struct product_sides){&in[0], made, &in[1]};
    default:
        return (struct product_sides){&in[0], &in[1], made};
    }
}

// Of rows with a matrix (depth, columns), or one that is turned: how many, unless these do not fit.
static inline const char *product_rows(const struct kernel_call *call,
                                       const struct product_sides *sides, int64_t *rows)
{
    const struct op_work *work = &call->op->work;
    *rows = array_elements(sides->y) / work->columns;
    bool fits = array_elements(sides->weight) == work->depth * work->columns &&
                array_elements(sides->x) == *rows * work->depth;
    return fits ? NULL : "the weight of a product does not fit its rows";
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
