#include "executor/cpu/image.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// Convolutions, and products of rows with a weight, of imported graphs. Either side of a window may
// be what is read: narrow = weight x wide is a convolution and the gradient of what a transposed
// one reads; wide += weight x narrow is a transposed one and the gradient of what a convolution
// reads; and both sides make the weight's gradient. A weight has (narrow channel, wide channel of
// its group, tap) in each case.
//
// Where the narrow side lies row by row it is a product of matrices: of the weight and a matrix
// that has a row for each channel and tap of the wide side, and a column for each place of some
// rows of the narrow one. Elsewhere (scores) places are gone through one tap after the other.

enum makes { MAKES_NARROW, MAKES_WIDE, MAKES_WEIGHT };

struct slide {
    enum makes makes;
    struct planes narrow, wide;
    REAL *weight;
    int64_t groups, narrow_channels, wide_channels;  // of a group
    struct window height, width;
};

FAST static void add_scaled(int64_t count, REAL factor, const REAL *x, int64_t x_step, REAL *y,
                            int64_t y_step)
{
    if (x_step == 1 && y_step == 1) {
        VECTOR for (int64_t i = 0; i < count; i++) y[i] += factor * x[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        y[i * y_step] += factor * x[i * x_step];
}

FAST static REAL inner_product(int64_t count, const REAL *x, int64_t x_step, const REAL *y,
                               int64_t y_step)
{
    if (x_step == 1 && y_step == 1) return SUM(i, 0, count, x[i] * y[i]);
    REAL sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i * x_step] * y[i * y_step];
    return sum;
}

// All places of two planes that meet at one tap.
static void slide_tap(const struct slide *s, REAL *narrow, REAL *wide, int64_t tap_row,
                      int64_t tap_column, REAL *weight)
{
    const struct planes *n = &s->narrow, *w = &s->wide;
    struct window_run rows = window_run(&s->height, tap_row, n->row, n->height, w->row, w->height);
    struct window_run columns =
        window_run(&s->width, tap_column, n->column, n->width, w->column, w->width);
    int64_t count = columns.end - columns.first, step = s->width.stride * w->column_stride;
    int64_t first = columns.first * s->width.stride - s->width.pad + s->width.dilation * tap_column;
    if (count <= 0) return;
    for (int64_t row = rows.first; row < rows.end; row++) {
        int64_t wide_row = row * s->height.stride - s->height.pad + s->height.dilation * tap_row;
        REAL *from = narrow + (row - n->row) * n->row_stride +
                     (columns.first - n->column) * n->column_stride;
        REAL *to =
            wide + (wide_row - w->row) * w->row_stride + (first - w->column) * w->column_stride;
        if (s->makes == MAKES_NARROW) {
            add_scaled(count, *weight, to, step, from, n->column_stride);
        } else if (s->makes == MAKES_WIDE) {
            add_scaled(count, *weight, from, n->column_stride, to, step);
        } else {
            *weight += inner_product(count, from, n->column_stride, to, step);
        }
    }
}

static void slide_planes(const struct slide *s, int64_t sample, int64_t channel, int64_t other)
{
    int64_t group = channel / s->narrow_channels, taps = s->height.taps * s->width.taps;
    REAL *narrow = image_plane(&s->narrow, sample, channel);
    REAL *wide = image_plane(&s->wide, sample, group * s->wide_channels + other);
    REAL *weight = s->weight + (channel * s->wide_channels + other) * taps;
    for (int64_t row = 0; row < s->height.taps; row++) {
        for (int64_t column = 0; column < s->width.taps; column++)
            slide_tap(s, narrow, wide, row, column, weight + row * s->width.taps + column);
    }
}

static const char *slide_read(const struct kernel_call *call, const struct kernel_array *narrow,
                              const struct kernel_array *wide, const struct kernel_array *weight,
                              struct slide *s)
{
    const struct op_work *work = &call->op->work;
    const char *fault = image_read(narrow, &s->narrow);
    if (!fault) fault = image_read(wide, &s->wide);
    if (fault) return fault;
    s->weight = weight->data;
    s->height = window_or_one(&work->windows[0]);
    s->width = window_or_one(&work->windows[1]);
    s->groups = work->groups;
    s->narrow_channels = s->narrow.channels / s->groups;
    s->wide_channels = s->wide.channels / s->groups;
    int64_t taps = s->height.taps * s->width.taps;
    bool fits = array_elements(weight) == s->narrow.channels * s->wide_channels * taps &&
                s->narrow.batch == s->wide.batch;
    return fits ? NULL : "the weight of a convolution does not fit its images";
}

// Whether places follow one another, and channels these.
static bool is_in_rows(const struct planes *p)
{
    return p->column_stride == 1 && p->row_stride == p->width &&
           p->channel_stride == p->height * p->width;
}

// Rows of the narrow side that are worked on at once, and the matrix that goes with them.
struct unfolded {
    int64_t sample, group, first_row, rows;
    int64_t depth, places;  // of the matrix
    REAL *matrix;
};

// Between the matrix and the wide side, one channel and tap: fills it, or adds it up there.
static void unfold_tap(const struct slide *s, const struct unfolded *u, int64_t other, int64_t tap)
{
    const struct planes *n = &s->narrow, *w = &s->wide;
    int64_t tap_row = tap / s->width.taps, tap_column = tap % s->width.taps;
    struct window_run rows =
        window_run(&s->height, tap_row, n->row + u->first_row, u->rows, w->row, w->height);
    struct window_run columns =
        window_run(&s->width, tap_column, n->column, n->width, w->column, w->width);
    REAL *line = u->matrix + (other * s->height.taps * s->width.taps + tap) * u->places;
    REAL *plane = image_plane(w, u->sample, u->group * s->wide_channels + other);
    int64_t count = columns.end - columns.first, step = s->width.stride * w->column_stride;
    int64_t first = columns.first * s->width.stride - s->width.pad + s->width.dilation * tap_column;
    bool adds = s->makes == MAKES_WIDE;
    if (!adds) memset(line, 0, (size_t)u->places * sizeof(REAL));
    for (int64_t row = rows.first; row < rows.end && count > 0; row++) {
        int64_t wide_row = row * s->height.stride - s->height.pad + s->height.dilation * tap_row;
        REAL *narrow = line + (row - n->row - u->first_row) * n->width + columns.first - n->column;
        REAL *wide =
            plane + (wide_row - w->row) * w->row_stride + (first - w->column) * w->column_stride;
        for (int64_t i = 0; i < count; i++) {
            if (adds) wide[i * step] += narrow[i];
            if (!adds) narrow[i] = wide[i * step];
        }
    }
}

static void unfold(const struct slide *s, const struct unfolded *u)
{
    int64_t taps = s->height.taps * s->width.taps;
    for (int64_t i = 0; i < s->wide_channels * taps; i++)
        unfold_tap(s, u, i / taps, i % taps);
}

static void multiply_unfolded(const struct slide *s, const struct unfolded *u)
{
    REAL *narrow = image_plane(&s->narrow, u->sample, u->group * s->narrow_channels) +
                   u->first_row * s->narrow.width;
    REAL *weight = s->weight + u->group * s->narrow_channels * u->depth;
    int64_t stride = s->narrow.channel_stride, channels = s->narrow_channels;
    struct cpu_matmul product = {.rows = channels,
                                 .columns = u->places,
                                 .inner = u->depth,
                                 .alpha = 1,
                                 .beta = 1,
                                 .a = weight,
                                 .b = u->matrix,
                                 .c = narrow,
                                 .a_stride = u->depth,
                                 .b_stride = u->places,
                                 .c_stride = stride};
    if (s->makes == MAKES_WIDE) {
        product.is_a_turned = true;
        product.rows = u->depth;
        product.inner = channels;
        product.beta = 0;
        product.b = narrow;
        product.c = u->matrix;
        product.b_stride = stride;
        product.c_stride = u->places;
    } else if (s->makes == MAKES_WEIGHT) {
        product.is_b_turned = true;
        product.columns = u->depth;
        product.inner = u->places;
        product.a = narrow;
        product.c = weight;
        product.a_stride = stride;
        product.c_stride = u->depth;
    }
    if (s->makes != MAKES_WIDE) unfold(s, u);
    cpu_multiply(&product);
    if (s->makes == MAKES_WIDE) unfold(s, u);
}

static const char *run_unfolded(struct cpu_device *device, const struct slide *s)
{
    enum { ELEMENTS_MOST = 1 << 20 };  // of the matrix, unless one row needs more
    struct unfolded u = {.depth = s->wide_channels * s->height.taps * s->width.taps};
    assert(s->groups > 0 && u.depth > 0 && "a window has a tap");
    int64_t each = u.depth * s->narrow.width, most = each > 0 ? ELEMENTS_MOST / each : 0;
    if (most < 1) most = 1;
    if (most > s->narrow.height) most = s->narrow.height;
    u.matrix = cpu_scratch(device, SCRATCH_A, most * each * (int64_t)sizeof(REAL) + 1);
    if (!u.matrix) return cpu_no_memory(device);
    for (u.sample = 0; u.sample < s->narrow.batch; u.sample++) {
        for (u.group = 0; u.group < s->groups; u.group++) {
            for (u.first_row = 0; u.first_row < s->narrow.height; u.first_row += u.rows) {
                int64_t left = s->narrow.height - u.first_row;
                u.rows = left < most ? left : most;
                u.places = u.rows * s->narrow.width;
                if (u.places > 0) multiply_unfolded(s, &u);
            }
        }
    }
    return NULL;
}

// Backward of a transposed convolution is a plain one, and the other way round.
static const char *run_slide(struct cpu_device *device, const struct kernel_call *call)
{
    bool is_turned = call->op->work.type == IMPORTED_CONV_TURNED;
    bool is_first = call->op->phase == PHASE_FORWARD;
    struct product_sides sides = product_sides(call);
    const struct kernel_array *made = &call->outputs[0];
    struct slide s = {.makes = MAKES_WEIGHT};
    if (call->op->phase != PHASE_WEIGHT)
        s.makes = is_first == is_turned ? MAKES_WIDE : MAKES_NARROW;
    const char *fault = slide_read(call, is_turned ? sides.x : sides.y,
                                   is_turned ? sides.y : sides.x, sides.weight, &s);
    if (fault || !made->data) return fault;
    call_begin_sum(call, 0);
    if (is_in_rows(&s.narrow) && s.narrow_channels > 1) return run_unfolded(device, &s);
    for (int64_t sample = 0; sample < s.narrow.batch; sample++) {
        for (int64_t channel = 0; channel < s.narrow.channels; channel++) {
            for (int64_t other = 0; other < s.wide_channels; other++)
                slide_planes(&s, sample, channel, other);
        }
    }
    return NULL;
}

// Rows of what stands in front of a weight, as many numbers each as it has in depth.
static const char *run_matrix(const struct kernel_call *call)
{
    const struct op_work *work = &call->op->work;
    bool is_turned = work->type == IMPORTED_MATRIX_TURNED;
    int64_t depth = work->depth, columns = work->columns;
    enum phase phase = call->op->phase;
    const struct kernel_array *made = &call->outputs[0];
    struct product_sides sides = product_sides(call);
    int64_t rows = 0;
    const char *fault = product_rows(call, &sides, &rows);
    if (fault) return fault;
    if (!made->data) return NULL;
    struct cpu_matmul product = {.alpha = 1,
                                 .beta = call_adds(call, 0),
                                 .a = call->inputs[0].data,
                                 .b = call->inputs[1].data,
                                 .c = made->data};
    product.rows = rows;
    product.columns = phase == PHASE_FORWARD ? columns : depth;
    product.inner = phase == PHASE_FORWARD ? depth : columns;
    product.is_b_turned = (phase == PHASE_FORWARD) == is_turned;
    product.a_stride = product.inner;
    product.b_stride = is_turned ? depth : columns;
    if (phase == PHASE_WEIGHT) {  // d_y turned times x, or x turned times d_y
        product.a = is_turned ? sides.y->data : sides.x->data;
        product.b = is_turned ? sides.x->data : sides.y->data;
        product.rows = is_turned ? columns : depth;
        product.columns = is_turned ? depth : columns;
        product.inner = rows;
        product.is_a_turned = true;
        product.is_b_turned = false;
        product.a_stride = product.rows;
        product.b_stride = product.columns;
    }
    product.c_stride = product.columns;
    assert(rows >= 0 && depth > 0 && columns > 0);
    if (product.rows > 0 && product.inner > 0)
        cpu_multiply(&product);
    else
        call_begin_sum(call, 0);
    return NULL;
}

const char *cpu_product(struct cpu_device *device, const struct kernel_call *call)
{
    enum imported_kind type = call->op->work.type;
    bool slides = type == IMPORTED_CONV || type == IMPORTED_CONV_TURNED;
    if (type == IMPORTED_PRODUCTS) return cpu_row_products(call);
    return slides ? run_slide(device, call) : run_matrix(call);
}
