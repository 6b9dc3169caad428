#pragma once
#include "executor/cuda/device_code.h"
#include "executor/cuda/image_kernels.h"

// Elements of images, for the kernels of imported operators.

struct image_spot {
    int64_t sample, channel, row, column;
};
// Of the elements in the order of sample, channel, row, column.
DEVICE struct image_spot spot_of(const struct planes *p, int64_t i)
{
    struct split column = split_of(i, p->width), row = split_of(column.line, p->height);
    struct split channel = split_of(row.line, p->channels);
    struct image_spot spot = {channel.line, channel.column, row.column, column.column};
    return spot;
}
DEVICE int64_t spot_at(const struct planes *p, struct image_spot s)
{
    return s.sample * p->sample_stride + s.channel * p->channel_stride + s.row * p->row_stride +
           s.column * p->column_stride;
}
HOST_AND_DEVICE static inline int64_t planes_elements(const struct planes *p)
{
    return p->batch * p->channels * p->height * p->width;
}
DEVICE float image_load(const struct image_reals *x, struct image_spot s)
{
    return load(x->reals, spot_at(&x->at, s));
}

// Of `count` places from `first` on, which of the narrow side goes with a place of the wide side at
// this tap, counted from the first; -1: none.
DEVICE int64_t narrow_of(const struct window *w, int64_t wide, int64_t tap, int64_t first,
                         int64_t count)
{
    int64_t shifted = wide + w->pad - w->dilation * tap;
    struct split s = split_of(shifted < 0 ? 0 : shifted, w->stride);
    bool is_there = shifted >= 0 && s.column == 0 && s.line >= first && s.line < first + count;
    return is_there ? s.line - first : -1;
}
// The place of the wide side, in the whole.
DEVICE int64_t wide_of(const struct window *w, int64_t narrow, int64_t tap)
{
    return narrow * w->stride - w->pad + w->dilation * tap;
}
