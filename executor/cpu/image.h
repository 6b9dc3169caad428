#pragma once
#include "executor/cpu/array.h"
#include "executor/image_call.h"

static inline int64_t image_at(const struct planes *image, int64_t sample, int64_t channel)
{
    return sample * image->sample_stride + channel * image->channel_stride;
}
static inline REAL *image_plane(const struct planes *image, int64_t sample, int64_t channel)
{
    return (REAL *)image->data + image_at(image, sample, channel);
}

// A window over one dimension: the places of the narrow side, from `first` to before `end`, whose
// tap lies on a place of the wide side that is here. All in the whole.
struct window_run {
    int64_t first, end;
};
struct window_run window_run(const struct window *window, int64_t tap, int64_t narrow_first,
                             int64_t narrow_count, int64_t wide_first, int64_t wide_count);

// executor/cpu/product.c, pool.c, statistics.c, imported.c: kernels of one operator and of its
// backward. Backward kernels add where the call says so.
const char *cpu_product(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_statistics(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_statistics_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_operator(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_operator_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_drop_path(const struct kernel_call *call);  // executor/cpu/dropout.c
// executor/cpu/strided.c
const char *cpu_strided(const struct kernel_call *call);
const char *cpu_split(const struct kernel_call *call);
const char *cpu_row_norm(struct cpu_device *device, const struct kernel_call *call);
// executor/cpu/loops.c
const char *cpu_row_softmax(const struct kernel_call *call);
const char *cpu_row_place(const struct kernel_call *call);
const char *cpu_row_products(const struct kernel_call *call);
const char *cpu_row_attention(struct cpu_device *device, const struct kernel_call *call);
// One row; x and y may be the same. executor/cpu/softmax.c
void cpu_softmax_row(int64_t width, const REAL *x, REAL *y);
