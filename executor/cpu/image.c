#include "executor/cpu/image.h"

static bool is_channel(enum dim dim)
{
    return dim == DIM_CHANNEL || dim == DIM_VOCAB || dim == DIM_OUT_CHANNEL;
}

const char *image_read(const struct kernel_array *array, struct planes *image)
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
        } else if (is_channel(dim) && !channels++) {
            image->channels = array->sizes[i];
            image->channel_stride = stride;
        } else if (array->sizes[i] != 1) {
            return "images have samples, channels, rows and columns";
        }
    }
    return NULL;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct window_run window_run(const struct window *window, int64_t tap, int64_t narrow_first,
                             int64_t narrow_count, int64_t wide_first, int64_t wide_count)
{
    int64_t shift = window->dilation * tap - window->pad;
    int64_t first = floor_div(wide_first - shift + window->stride - 1, window->stride);
    int64_t end = floor_div(wide_first + wide_count - 1 - shift, window->stride) + 1;
    if (first < narrow_first) first = narrow_first;
    if (end > narrow_first + narrow_count) end = narrow_first + narrow_count;
    return (struct window_run){first, end > first ? end : first};
}

struct window window_or_one(const struct window *window)
{
    return window->taps > 0 ? *window : (struct window){1, 1, 1, 0};
}
