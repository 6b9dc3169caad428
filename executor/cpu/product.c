#include "executor/cpu/image.h"
#include "executor/cpu/sums.h"

// Convolutions, and products of rows with a weight, of imported graphs. Either side of a window may
// be what is read: narrow = weight x wide is a convolution and the gradient of what a transposed
// one reads; wide += weight x narrow is a transposed one and the gradient of what a convolution
// reads; and both sides make the weight's gradient. A weight has (narrow channel, wide channel of
// its group, tap) in each case.
//
// What is added to one number is added in the same order wherever it lies: channels, then taps.

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

static const char *run_slide(const struct kernel_call *call)
{
    bool is_turned = call->op->work.type == IMPORTED_CONV_TURNED;
    bool is_first = call->op->phase == PHASE_FORWARD;
    // Forward x, weight -> y; backward d_y, weight -> d_x, and x, d_y -> d_weight.
    const struct kernel_array *in = call->inputs, *made = &call->outputs[0];
    const struct kernel_array *weight = &in[1], *read = &in[0], *result = made;
    struct slide s = {.makes = MAKES_NARROW};
    if (call->op->phase == PHASE_WEIGHT) {
        s.makes = MAKES_WEIGHT;
        weight = made;
        result = &in[1];
    } else if (!is_first) {
        read = made;
        result = &in[0];
    }
    if (s.makes != MAKES_WEIGHT) s.makes = is_first == is_turned ? MAKES_WIDE : MAKES_NARROW;
    const char *fault =
        slide_read(call, is_turned ? read : result, is_turned ? result : read, weight, &s);
    if (fault || !made->data) return fault;
    call_begin_sum(call, 0);
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
    const struct kernel_array *in = call->inputs, *made = &call->outputs[0];
    const struct kernel_array *result = phase == PHASE_FORWARD  ? made
                                        : phase == PHASE_WEIGHT ? &in[1]
                                                                : &in[0];
    const struct kernel_array *x = phase == PHASE_BACKWARD ? made : &in[0];
    const struct kernel_array *weight = phase == PHASE_WEIGHT ? made : &in[1];
    int64_t rows = array_elements(result) / columns;
    bool fits = array_elements(weight) == depth * columns && array_elements(x) == rows * depth;
    if (!fits) return "the weight of a product does not fit its rows";
    if (!made->data) return NULL;
    struct cpu_matmul product = {
        .alpha = 1, .beta = call_adds(call, 0), .a = in[0].data, .b = in[1].data, .c = made->data};
    product.rows = rows;
    product.columns = phase == PHASE_FORWARD ? columns : depth;
    product.inner = phase == PHASE_FORWARD ? depth : columns;
    product.is_b_turned = (phase == PHASE_FORWARD) == is_turned;
    product.a_stride = product.inner;
    product.b_stride = is_turned ? depth : columns;
    if (phase == PHASE_WEIGHT) {  // d_y turned times x, or x turned times d_y
        product.a = is_turned ? result->data : x->data;
        product.b = is_turned ? x->data : result->data;
        product.rows = is_turned ? columns : depth;
        product.columns = is_turned ? depth : columns;
        product.inner = rows;
        product.is_a_turned = true;
        product.is_b_turned = false;
        product.a_stride = product.rows;
        product.b_stride = product.columns;
    }
    product.c_stride = product.columns;
    if (product.rows > 0 && product.inner > 0)
        cpu_multiply(&product);
    else
        call_begin_sum(call, 0);
    return NULL;
}

const char *cpu_product(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    enum imported_kind type = call->op->work.type;
    bool slides = type == IMPORTED_CONV || type == IMPORTED_CONV_TURNED;
    return slides ? run_slide(call) : run_matrix(call);
}
