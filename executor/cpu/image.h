#pragma once
#include "executor/cpu/array.h"

// Arrays of imported operators as images: samples of channels of rows and columns, whatever their
// dims are called and in whatever order they stand. Scores have their classes innermost.

struct planes {
    REAL *data;
    int64_t batch, channels, height, width;  // here
    int64_t row, column;                     // where that begins in the whole
    int64_t whole_height, whole_width;
    int64_t sample_stride, channel_stride, row_stride, column_stride;
};

// NULL, or why the array is none.
const char *image_read(const struct kernel_array *array, struct planes *image);

static inline int64_t image_at(const struct planes *image, int64_t sample, int64_t channel)
{
    return sample * image->sample_stride + channel * image->channel_stride;
}
static inline REAL *image_plane(const struct planes *image, int64_t sample, int64_t channel)
{
    return image->data + image_at(image, sample, channel);
}

// A window over one dimension: the places of the narrow side, from `first` to before `end`, whose
// tap lies on a place of the wide side that is here. All in the whole.
struct window_run {
    int64_t first, end;
};
struct window_run window_run(const struct window *window, int64_t tap, int64_t narrow_first,
                             int64_t narrow_count, int64_t wide_first, int64_t wide_count);
// Of a side that has none of the dimension: one place, one tap.
struct window window_or_one(const struct window *window);

// executor/cpu/product.c, pool.c, statistics.c, imported.c: kernels of one operator and of its
// backward. Backward kernels add where the call says so.
const char *cpu_product(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_statistics(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_statistics_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_operator(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_operator_backward(struct cpu_device *device, const struct kernel_call *call);
