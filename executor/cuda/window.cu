#include "executor/cuda/image_code.h"

// Windows over images: pools, and convolutions whose products are made here or by GEMMs of a matrix
// that is unfolded here (executor/cuda/product.c). Every number is gathered by one thread, or one
// block, in the order of taps: nothing is added to by several.

// The places of one window that the whole image has, `dilation` apart.
struct reach {
    int64_t first, count;
};
DEVICE struct reach reach_of(const struct window *w, int64_t place, int64_t whole)
{
    int64_t start = wide_of(w, place, 0), step = w->dilation;
    int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
    struct reach r = {start + skipped * step, w->taps - skipped};
    int64_t fit = r.first < whole ? (whole - 1 - r.first) / step + 1 : 0;
    if (r.count > fit) r.count = fit;
    if (r.count < 0) r.count = 0;
    return r;
}

DEVICE float share_of(const struct pool_args *a, struct reach rows, struct reach columns)
{
    int64_t count = a->counts_padding ? a->height.taps * a->width.taps : rows.count * columns.count;
    return count > 0 ? 1 / (float)count : 0;
}

// The sum or the largest of one window, and where that is: in the whole, of equal ones the first.
struct pooled {
    float value;
    int64_t where;
};
DEVICE struct pooled pool_of(const struct pool_args *a, struct image_spot at, struct reach rows,
                             struct reach columns)
{
    const struct planes *x = &a->wide.at;
    struct pooled best = {a->is_max ? -HUGE_VALF : 0, -1};
    at.row = rows.first - x->row, at.column = columns.first - x->column;
    int64_t first = spot_at(x, at), row_step = a->height.dilation * x->row_stride;
    int64_t column_step = a->width.dilation * x->column_stride;
    int taps = (int)columns.count, count = (int)(rows.count * columns.count), most = -1;
    for (int k = 0, row = 0, column = 0; k < count; k++) {
        float value = load(a->wide.reals, first + row * row_step + column * column_step);
        bool is_more = most < 0 || value > best.value;
        if (is_more) most = k;
        best.value = !a->is_max ? best.value + value : is_more ? value : best.value;
        bool ends = ++column == taps;
        row += ends, column = ends ? 0 : column;
    }
    if (most < 0) return best;
    best.where = (rows.first + most / taps * a->height.dilation) * x->whole_width + columns.first +
                 most % taps * a->width.dilation;
    return best;
}

KERNEL(pool, struct pool_args, a)
{
    const struct planes *x = &a.wide.at, *y = &a.narrow.at;
    for (int64_t i = INDEX; i < planes_elements(y); i += INDICES) {
        struct image_spot s = spot_of(y, i);
        struct reach rows = reach_of(&a.height, y->row + s.row, x->whole_height);
        struct reach columns = reach_of(&a.width, y->column + s.column, x->whole_width);
        struct pooled best = pool_of(&a, s, rows, columns);
        if (!a.is_max) best.value *= share_of(&a, rows, columns);
        store(a.narrow.reals, spot_at(y, s), best.value);
        if (a.kept) a.kept[spot_at(y, s)] = best.where;
    }
}

void kernel_pool(struct CUstream_st *stream, const struct pool_args *args)
{
    LAUNCH(pool, *args, blocks_for(planes_elements(&args->narrow.at), THREADS), THREADS, stream);
}

// What a place of the wide side gets of one place of the narrow side.
DEVICE float pool_slope(const struct pool_args *a, struct image_spot at, int64_t where)
{
    const struct planes *x = &a->wide.at, *y = &a->narrow.at;
    float d = image_load(&a->narrow, at);
    if (a->is_max) return a->kept[spot_at(y, at)] == where ? d : 0;
    struct reach rows = reach_of(&a->height, y->row + at.row, x->whole_height);
    struct reach columns = reach_of(&a->width, y->column + at.column, x->whole_width);
    return d * share_of(a, rows, columns);
}

KERNEL(pool_back, struct pool_args, a)
{
    const struct planes *x = &a.wide.at, *y = &a.narrow.at;
    for (int64_t i = INDEX; i < planes_elements(x); i += INDICES) {
        struct image_spot s = spot_of(x, i), at = s;
        int64_t row = x->row + s.row, column = x->column + s.column;
        float sum = 0;
        for (int64_t r = 0; r < a.height.taps; r++) {
            at.row = narrow_of(&a.height, row, r, y->row, y->height);
            for (int64_t c = 0; c < a.width.taps && at.row >= 0; c++) {
                at.column = narrow_of(&a.width, column, c, y->column, y->width);
                if (at.column >= 0) sum += pool_slope(&a, at, row * x->whole_width + column);
            }
        }
        store_sum(a.wide.reals, spot_at(x, s), a.adds, sum);
    }
}

void kernel_pool_backward(struct CUstream_st *stream, const struct pool_args *args)
{
    LAUNCH(pool_back, *args, blocks_for(planes_elements(&args->wide.at), THREADS), THREADS, stream);
}

DEVICE bool is_of(const struct planes *p, int64_t row, int64_t column)
{
    return row >= 0 && row < p->height && column >= 0 && column < p->width;
}

KERNEL(slide_narrow, struct slide_args, a)
{
    const struct planes *w = &a.wide.at, *n = &a.narrow.at;
    int64_t taps = a.height.taps * a.width.taps;
    for (int64_t i = INDEX; i < planes_elements(n); i += INDICES) {
        struct image_spot s = spot_of(n, i), at = s;
        int64_t first = split_of(s.channel, a.narrow_channels).line * a.wide_channels;
        float sum = 0;
        for (int64_t k = 0; k < a.wide_channels * taps; k++) {
            struct split other = split_of(k, taps), tap = split_of(other.column, a.width.taps);
            at.channel = first + other.line;
            at.row = wide_of(&a.height, n->row + s.row, tap.line) - w->row;
            at.column = wide_of(&a.width, n->column + s.column, tap.column) - w->column;
            if (is_of(w, at.row, at.column))
                sum += load(a.weight, s.channel * a.wide_channels * taps + k) *
                       image_load(&a.wide, at);
        }
        store_sum(a.narrow.reals, spot_at(n, s), a.adds, sum);
    }
}

void kernel_slide_narrow(struct CUstream_st *stream, const struct slide_args *args)
{
    LAUNCH(slide_narrow, *args, blocks_for(planes_elements(&args->narrow.at), THREADS), THREADS,
           stream);
}

KERNEL(slide_wide, struct slide_args, a)
{
    const struct planes *w = &a.wide.at, *n = &a.narrow.at;
    int64_t taps = a.height.taps * a.width.taps;
    for (int64_t i = INDEX; i < planes_elements(w); i += INDICES) {
        struct image_spot s = spot_of(w, i), at = s;
        struct split other = split_of(s.channel, a.wide_channels);
        float sum = 0;
        for (int64_t k = 0; k < a.narrow_channels * taps; k++) {
            struct split channel = split_of(k, taps), tap = split_of(channel.column, a.width.taps);
            at.channel = other.line * a.narrow_channels + channel.line;
            at.row = narrow_of(&a.height, w->row + s.row, tap.line, n->row, n->height);
            at.column = narrow_of(&a.width, w->column + s.column, tap.column, n->column, n->width);
            if (at.row < 0 || at.column < 0) continue;
            int64_t weight = (at.channel * a.wide_channels + other.column) * taps + channel.column;
            sum += load(a.weight, weight) * image_load(&a.narrow, at);
        }
        store_sum(a.wide.reals, spot_at(w, s), a.adds, sum);
    }
}

void kernel_slide_wide(struct CUstream_st *stream, const struct slide_args *args)
{
    LAUNCH(slide_wide, *args, blocks_for(planes_elements(&args->wide.at), THREADS), THREADS,
           stream);
}

// A block a weight.
BLOCK_KERNEL(slide_weight, struct slide_args, a)
{
    const struct planes *w = &a.wide.at, *n = &a.narrow.at;
    int64_t taps = a.height.taps * a.width.taps, each = a.wide_channels * taps;
    for (int64_t i = blockIdx.x; i < n->channels * each; i += gridDim.x) {
        struct split channel = split_of(i, each), other = split_of(channel.column, taps);
        struct split tap = split_of(other.column, a.width.taps);
        int64_t group = split_of(channel.line, a.narrow_channels).line;
        float sum = 0;
        for (int64_t k = threadIdx.x; k < n->batch * n->height * n->width; k += blockDim.x) {
            struct split column = split_of(k, n->width), row = split_of(column.line, n->height);
            struct image_spot from = {row.line, channel.line, row.column, column.column}, to = from;
            to.channel = group * a.wide_channels + other.line;
            to.row = wide_of(&a.height, n->row + from.row, tap.line) - w->row;
            to.column = wide_of(&a.width, n->column + from.column, tap.column) - w->column;
            if (is_of(w, to.row, to.column))
                sum += image_load(&a.narrow, from) * image_load(&a.wide, to);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) store_sum(a.weight, i, a.adds, sum);
    }
}

void kernel_slide_weight(struct CUstream_st *stream, const struct slide_args *args)
{
    int64_t weights =
        args->narrow.at.channels * args->wide_channels * args->height.taps * args->width.taps;
    LAUNCH(slide_weight, *args, blocks_for(weights, 1), THREADS, stream);
}

KERNEL(slide_unfold, struct slide_args, a)
{
    const struct planes *w = &a.wide.at, *n = &a.narrow.at;
    int64_t taps = a.height.taps * a.width.taps;
    int64_t count = a.samples * w->channels * taps * a.rows * n->width;
    for (int64_t i = INDEX; i < count; i += INDICES) {
        struct split column = split_of(i, n->width), row = split_of(column.line, a.rows);
        struct split all = split_of(row.line, taps), tap = split_of(all.column, a.width.taps);
        struct split channel = split_of(all.line, w->channels);
        int64_t at_row = n->row + a.first_row + row.column;
        struct image_spot s = {a.first_sample + channel.line, channel.column,
                               wide_of(&a.height, at_row, tap.line) - w->row,
                               wide_of(&a.width, n->column + column.column, tap.column) -
                                   w->column};
        store(a.matrix, i, is_of(w, s.row, s.column) ? image_load(&a.wide, s) : 0);
    }
}

void kernel_slide_unfold(struct CUstream_st *stream, const struct slide_args *args)
{
    int64_t count = args->samples * args->wide.at.channels * args->height.taps * args->width.taps *
                    args->rows * args->narrow.at.width;
    LAUNCH(slide_unfold, *args, blocks_for(count, THREADS), THREADS, stream);
}

KERNEL(slide_fold, struct slide_args, a)
{
    struct planes some = a.wide.at;
    const struct planes *n = &a.narrow.at;
    some.batch = a.samples;
    for (int64_t i = INDEX; i < planes_elements(&some); i += INDICES) {
        struct image_spot s = spot_of(&some, i);
        int64_t line = (s.sample * some.channels + s.channel) * a.height.taps * a.width.taps;
        float sum = 0;
        for (int64_t r = 0; r < a.height.taps; r++) {
            int64_t row = narrow_of(&a.height, some.row + s.row, r, n->row + a.first_row, a.rows);
            for (int64_t c = 0; c < a.width.taps && row >= 0; c++) {
                int64_t column =
                    narrow_of(&a.width, some.column + s.column, c, n->column, n->width);
                int64_t at = ((line + r * a.width.taps + c) * a.rows + row) * n->width + column;
                if (column >= 0) sum += load(a.matrix, at);
            }
        }
        s.sample += a.first_sample;
        store_sum(a.wide.reals, spot_at(&some, s), a.adds, sum);
    }
}

void kernel_slide_fold(struct CUstream_st *stream, const struct slide_args *args)
{
    const struct planes *w = &args->wide.at;
    int64_t count = args->samples * w->channels * w->height * w->width;
    LAUNCH(slide_fold, *args, blocks_for(count, THREADS), THREADS, stream);
}
