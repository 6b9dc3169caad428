#include "executor/cuda/image.h"
#include "plan/unfolded.h"

#include <assert.h>
#include <limits.h>

// Convolutions, and products of rows with a weight, of imported graphs (executor/cpu/product.c).
// Where places of the narrow side are evenly apart a convolution is GEMMs (plan/unfolded.h); with
// one channel a group, and elsewhere, kernels of their own.

enum makes { MAKES_NARROW, MAKES_WIDE, MAKES_WEIGHT };

// Of the matrix at a time; an emulation has less, to need several.
#if defined(CUDA_EMULATED)
enum { MATRIX_BYTES = 1 << 10 };
#else
enum { MATRIX_BYTES = UNFOLDED_BYTES };
#endif

struct slide {
    enum makes makes;
    struct slide_args args;
    int64_t groups, depth;  // depth: wide channels of a group times taps
    bool is_plain;          // the wide side is the matrix
};

static bool is_even(const struct planes *p)
{
    return p->row_stride == p->width * p->column_stride || p->height == 1;
}

// Whether each place goes with the same one of the other side.
static bool is_plain(const struct slide_args *a)
{
    const struct planes *n = &a->narrow.at, *w = &a->wide.at;
    return window_is_plain(&a->height) && window_is_plain(&a->width) && is_even(w) &&
           n->row == w->row && n->height == w->height && n->column == w->column &&
           n->width == w->width;
}

static const char *read_slide(const struct run *run, const struct kernel_array *narrow,
                              const struct kernel_array *wide, const struct kernel_array *weight,
                              struct slide *s)
{
    const struct op_work *work = &run->call->op->work;
    const char *fault = cuda_image_of(run, narrow, &s->args.narrow);
    if (!fault) fault = cuda_image_of(run, wide, &s->args.wide);
    if (fault) return fault;
    const struct planes *n = &s->args.narrow.at, *w = &s->args.wide.at;
    s->args.height = window_or_one(&work->windows[0]);
    s->args.width = window_or_one(&work->windows[1]);
    s->args.weight = reals_of(run->device, weight);
    s->args.adds = call_adds(run->call, 0);
    s->groups = work->groups;
    assert(s->groups > 0);
    s->args.narrow_channels = n->channels / s->groups;
    s->args.wide_channels = w->channels / s->groups;
    s->depth = s->args.wide_channels * s->args.height.taps * s->args.width.taps;
    s->is_plain = is_plain(&s->args);
    bool fits = array_elements(weight) == n->channels * s->depth && n->batch == w->batch;
    return fits ? NULL : "the weight of a convolution does not fit its images";
}

// What the matrix is for the bound on its bytes; a plain side takes none.
static struct unfolding unfolding_of(const struct slide *s)
{
    const struct planes *n = &s->args.narrow.at;
    int number = s->makes == MAKES_WIDE ? NUMBER_FP32 : s->args.wide.reals.number;
    return (struct unfolding){.groups = s->groups,
                              .channels = s->args.narrow_channels,
                              .depth = s->depth,
                              .samples = n->batch,
                              .rows = n->height,
                              .columns = n->width,
                              .element_bytes = s->is_plain ? 0 : number_bytes(number)};
}

// The matrix of a sample, a batch of it for each group, or for each sample.
static struct matrix matrix_of(const struct slide *s, int64_t sample, bool is_of_samples)
{
    const struct slide_args *a = &s->args;
    const struct planes *w = &a->wide.at;
    if (s->is_plain) {
        int64_t batch_stride =
            is_of_samples ? w->sample_stride : a->wide_channels * w->channel_stride;
        return (struct matrix){reals_at(a->wide.reals, sample * w->sample_stride),
                               w->channel_stride, w->column_stride, batch_stride};
    }
    int64_t places = a->rows * a->narrow.at.width, each = s->depth * places;
    return (struct matrix){reals_at(a->matrix, (sample - a->first_sample) * s->groups * each),
                           places, 1, each};
}

// One GEMM for each group of a sample, or for each sample that is here.
static const char *multiply(const struct run *run, const struct slide *s, int64_t sample,
                            bool is_of_samples)
{
    const struct slide_args *a = &s->args;
    const struct planes *n = &a->narrow.at;
    int64_t places = a->rows * n->width, channels = a->narrow_channels;
    struct matrix narrow = {
        reals_at(a->narrow.reals, sample * n->sample_stride + a->first_row * n->row_stride),
        n->channel_stride, n->column_stride,
        is_of_samples ? n->sample_stride : channels * n->channel_stride};
    struct matrix weight = {a->weight, s->depth, 1, is_of_samples ? 0 : channels * s->depth};
    struct matrix unfolded = matrix_of(s, sample, is_of_samples);
    struct cuda_matmul product = {.rows = channels,
                                  .columns = places,
                                  .inner = s->depth,
                                  .batch = is_of_samples ? a->samples : s->groups,
                                  .alpha = 1,
                                  .beta = a->adds,
                                  .a = weight,
                                  .b = unfolded,
                                  .c = narrow};
    if (s->makes == MAKES_WIDE) {
        product.rows = s->depth, product.inner = channels;
        product.beta = s->is_plain && a->adds;
        product.a = (struct matrix){weight.reals, 1, s->depth, weight.batch_stride};
        product.b = narrow, product.c = unfolded;
    } else if (s->makes == MAKES_WEIGHT) {
        product.columns = s->depth, product.inner = places;
        product.beta = a->adds || sample > 0 || a->first_row > 0;
        product.a = narrow, product.c = weight;
        product.b = (struct matrix){unfolded.reals, unfolded.column_stride, unfolded.row_stride,
                                    unfolded.batch_stride};
    }
    return cuda_multiply(run->device, run->stream, &product);
}

// The matrix is unfolded before it is read, or folded when it has been made.
static const char *multiply_part(const struct run *run, struct slide *s, bool is_once)
{
    const char *fault = NULL;
    int64_t first = s->args.first_sample, end = first + s->args.samples;
    bool unfolds = !s->is_plain && s->makes != MAKES_WIDE;
    if (unfolds) kernel_slide_unfold(run->on, &s->args);
    for (int64_t sample = first; sample < end && !fault; sample += is_once ? end - first : 1)
        fault = multiply(run, s, sample, is_once);
    if (fault || s->is_plain || unfolds) return fault;
    struct slide_args fold = s->args;
    fold.adds = fold.adds || fold.first_row > 0;
    kernel_slide_fold(run->on, &fold);
    return NULL;
}

// Sums of what several taps make are added up in fp32, what is read as it is.
static const char *run_unfolded(const struct run *run, struct slide *s)
{
    struct slide_args *a = &s->args;
    const struct planes *n = &a->narrow.at;
    struct unfolding of = unfolding_of(s);
    struct unfolded_part part = unfolded_part(&of, MATRIX_BYTES);
    bool is_once = unfolded_is_once(&of, s->makes == MAKES_WEIGHT);
    assert(part.samples > 0 && part.rows > 0);
    if (n->channels > INT_MAX || s->depth > INT_MAX || part.rows * n->width > INT_MAX)
        return "a matrix of more than 2^31 rows";
    a->matrix.number = s->makes == MAKES_WIDE ? NUMBER_FP32 : a->wide.reals.number;
    if (!s->is_plain)
        a->matrix.data = run_scratch(run, SCRATCH_SCORES, unfolded_bytes(&of, MATRIX_BYTES));
    if (!s->is_plain && !a->matrix.data) return CUDA_NO_MEMORY;
    const char *fault = NULL;
    for (int64_t first = 0; first < n->batch && !fault; first += part.samples) {
        for (int64_t row = 0; row < n->height && !fault; row += part.rows) {
            a->first_sample = first, a->first_row = row;
            a->samples = part.samples < n->batch - first ? part.samples : n->batch - first;
            a->rows = part.rows < n->height - row ? part.rows : n->height - row;
            fault = multiply_part(run, s, is_once);
        }
    }
    return fault;
}

// Which side is wide depends on the direction: a turned convolution makes more places than it has.
static const char *run_slide(const struct run *run)
{
    const struct kernel_call *call = run->call;
    bool is_turned = call->op->work.type == IMPORTED_CONV_TURNED;
    bool is_first = call->op->phase == PHASE_FORWARD;
    struct product_sides sides = product_sides(call);
    const struct kernel_array *made = &call->outputs[0];
    struct slide s = {.makes = MAKES_WEIGHT};
    if (call->op->phase != PHASE_WEIGHT)
        s.makes = is_first == is_turned ? MAKES_WIDE : MAKES_NARROW;
    const char *fault = read_slide(run, is_turned ? sides.x : sides.y,
                                   is_turned ? sides.y : sides.x, sides.weight, &s);
    const struct planes *n = &s.args.narrow.at;
    if (fault || array_elements(made) == 0) return fault;
    if (image_elements(n) == 0 || image_elements(&s.args.wide.at) == 0)
        return cuda_begin_sum(run->device, run->stream, call, 0);
    if (is_even(n) && s.args.narrow_channels > 1) return run_unfolded(run, &s);
    if (s.makes == MAKES_NARROW) kernel_slide_narrow(run->on, &s.args);
    if (s.makes == MAKES_WIDE) kernel_slide_wide(run->on, &s.args);
    if (s.makes == MAKES_WEIGHT) kernel_slide_weight(run->on, &s.args);
    return NULL;
}

// Rows of what stands in front of a weight, as many numbers each as it has in depth.
static const char *run_matrix(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct op_work *work = &call->op->work;
    bool is_turned = work->type == IMPORTED_MATRIX_TURNED;
    int64_t depth = work->depth, columns = work->columns;
    enum phase phase = call->op->phase;
    const struct kernel_array *made = &call->outputs[0];
    struct product_sides sides = product_sides(call);
    int64_t rows = 0;
    const char *fault = product_rows(call, &sides, &rows);
    if (fault) return fault;
    assert(rows >= 0);
    if (rows > INT_MAX || depth > INT_MAX || columns > INT_MAX)
        return "a matrix of more than 2^31 rows";
    if (array_elements(made) == 0) return NULL;
    if (rows == 0) return cuda_begin_sum(run->device, run->stream, call, 0);
    struct matrix before = {reals_of(run->device, sides.x), depth, 1, 0};
    struct matrix behind = {reals_of(run->device, sides.y), columns, 1, 0};
    struct matrix by = {reals_of(run->device, sides.weight), is_turned ? 1 : columns,
                        is_turned ? depth : 1, 0};  // (depth, columns)
    struct cuda_matmul product = {.rows = rows,
                                  .columns = columns,
                                  .inner = depth,
                                  .batch = 1,
                                  .alpha = 1,
                                  .beta = call_adds(call, 0),
                                  .a = before,
                                  .b = by,
                                  .c = behind};
    if (phase == PHASE_BACKWARD) {
        product.columns = depth, product.inner = columns;
        product.a = behind, product.c = before;
        product.b = (struct matrix){by.reals, by.column_stride, by.row_stride, 0};
    } else if (phase == PHASE_WEIGHT) {
        product.rows = depth, product.inner = rows;
        product.a = (struct matrix){before.reals, 1, depth, 0};
        product.b = behind, product.c = by;
    }
    return cuda_multiply(run->device, run->stream, &product);
}

const char *cuda_product(const struct run *run)
{
    enum imported_kind type = run->call->op->work.type;
    bool slides = type == IMPORTED_CONV || type == IMPORTED_CONV_TURNED;
    if (type == IMPORTED_PRODUCTS) return cuda_row_products(run);
    return slides ? run_slide(run) : run_matrix(run);
}
