#include "executor/cpu/array.h"
#include "executor/cpu/sums.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Layer norm and RMS norm over the last dims. Backward makes mean and deviation again from x, which
// it reads anyway.

struct norm_moments {
    REAL mean, inverse;  // 1 / standard deviation, or 1 / root mean square
};

static inline __attribute__((always_inline)) struct norm_moments
moments_of(const struct op *op, const REAL *x, int64_t width)
{
    REAL mean = 0;
    if (op->function == FUNCTION_LAYER_NORM) mean = SUM(i, 0, width, x[i]) / (REAL)width;
    REAL squares = SUM(i, 0, width, (x[i] - mean) * (x[i] - mean));
    return (struct norm_moments){mean,
                                 1 / (REAL)sqrt((double)(squares / (REAL)width) + op->scalar)};
}

// The gradient of a normalized value.
static inline __attribute__((always_inline)) REAL slope(const REAL *d, const REAL *weight,
                                                        int64_t i)
{
    return weight ? d[i] * weight[i] : d[i];
}

FAST static void norm_row(const struct op *op, int64_t width, const REAL *x, const REAL *weight,
                          const REAL *bias, REAL *y)
{
    struct norm_moments m = moments_of(op, x, width);
    if (weight && bias) {
        VECTOR for (int64_t i = 0; i < width; i++)
        {
            y[i] = (x[i] - m.mean) * m.inverse * weight[i] + bias[i];
        }
    } else if (weight) {
        VECTOR for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.inverse * weight[i];
    } else {
        VECTOR for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.inverse;
    }
}

// Where other ranks hold the rest of each row, what is summed over rows is exchanged: of squares,
// or of a layer norm the mean and then the squares around it, in backward g and g * n besides.
// Between the parts the first bytes of the row that will be written hold what is known of it so
// far, in reals also where the row is of 16 bits.
enum { KNOWN_MEAN, KNOWN_INVERSE, KNOWN_GRADIENT, KNOWN_COUNT };

enum term { TERM_VALUE, TERM_SQUARE, TERM_GRADIENT, TERM_PRODUCT, TERM_NONE };

struct parts {
    const struct op *op;
    int64_t width, whole, rows;
    const REAL *x, *weight, *bias, *d;  // d: backward
    REAL *y, *inner;                    // y: what is written, forward or backward
    char *kept;                         // where its rows stand between the parts
    int64_t kept_bytes;                 // of a row
};

struct known {
    REAL of[KNOWN_COUNT];
};

static struct known known_of(const struct parts *p, int64_t row)
{
    struct known known;
    memcpy(&known, p->kept + row * p->kept_bytes, sizeof known);
    return known;
}

int cpu_norm_exchanges(const struct op *op)
{
    bool is_norm = op->kind == OP_NORM || op->kind == OP_NORM_BACKWARD;
    int sums = op->function == FUNCTION_LAYER_NORM ? 2 : 1;
    return !is_norm ? 0 : op->kind == OP_NORM ? sums : 2 * sums;
}

// What exchange n, from 1 on, is of; TERM_NONE behind the last.
static enum term term_of(const struct parts *p, int n)
{
    static const enum term LAYER[] = {TERM_VALUE, TERM_SQUARE, TERM_GRADIENT, TERM_PRODUCT};
    static const enum term SQUARE[] = {TERM_SQUARE, TERM_PRODUCT};
    bool is_layer = p->op->function == FUNCTION_LAYER_NORM;
    if (n < 1 || n > cpu_norm_exchanges(p->op)) return TERM_NONE;
    return is_layer ? LAYER[n - 1] : SQUARE[n - 1];
}

static REAL known_mean(const struct parts *p, const struct known *known)
{
    return p->op->function == FUNCTION_LAYER_NORM ? known->of[KNOWN_MEAN] : 0;
}

FAST static REAL square_sum(int64_t width, const REAL *x, REAL mean)
{
    return SUM(i, 0, width, (x[i] - mean) * (x[i] - mean));
}

FAST static REAL product_sum(int64_t width, const REAL *d, const REAL *weight, const REAL *x,
                             REAL mean)
{
    return SUM(i, 0, width, slope(d, weight, i) * (x[i] - mean));
}

static REAL term_sum(const struct parts *p, enum term term, int64_t row)
{
    const REAL *x = p->x + row * p->width, *weight = p->weight;
    const REAL *d = p->d ? p->d + row * p->width : NULL;
    struct known known = known_of(p, row);
    switch (term) {
    case TERM_VALUE:
        return SUM(i, 0, p->width, x[i]);
    case TERM_SQUARE:
        return square_sum(p->width, x, known_mean(p, &known));
    case TERM_GRADIENT:
        return SUM(i, 0, p->width, slope(d, weight, i));
    default:
        return known.of[KNOWN_INVERSE] * product_sum(p->width, d, weight, x, known_mean(p, &known));
    }
}

static struct known take_in(const struct parts *p, enum term term, int64_t row)
{
    struct known known = known_of(p, row);
    REAL mean_of_rows = p->inner[row] / (REAL)p->whole;
    if (term == TERM_VALUE) known.of[KNOWN_MEAN] = mean_of_rows;
    if (term == TERM_SQUARE)
        known.of[KNOWN_INVERSE] = 1 / (REAL)sqrt((double)mean_of_rows + p->op->scalar);
    if (term == TERM_GRADIENT) known.of[KNOWN_GRADIENT] = mean_of_rows;
    return known;
}

static void finish_row(const struct parts *p, const struct kernel_call *call,
                       const struct known *known, int64_t row)
{
    int64_t width = p->width, first = row * width;
    const REAL *x = p->x + first, *weight = p->weight;
    REAL *y = p->y + first, mean = known_mean(p, known), inverse = known->of[KNOWN_INVERSE];
    if (!p->d) {
        for (int64_t i = 0; i < width; i++) {
            REAL n = (x[i] - mean) * inverse;
            y[i] = (weight ? n * weight[i] : n) + (p->bias ? p->bias[i] : 0);
        }
        return;
    }
    const REAL *d = p->d + first;
    bool is_layer = p->op->function == FUNCTION_LAYER_NORM;
    REAL mean_g = is_layer ? known->of[KNOWN_GRADIENT] : 0,
         mean_gn = p->inner[row] / (REAL)p->whole;
    REAL *d_weight = call->output_count > 1 ? call->outputs[1].data : NULL;
    REAL *d_bias = call->output_count > 2 ? call->outputs[2].data : NULL;
    for (int64_t i = 0; i < width; i++) {
        REAL n = (x[i] - mean) * inverse, g = slope(d, weight, i);
        if (d_weight) d_weight[i] += d[i] * n;
        if (d_bias) d_bias[i] += d[i];
        y[i] = inverse * (g - n * mean_gn - mean_g);
    }
}

static const char *run_part(const struct parts *p, const struct kernel_call *call)
{
    assert(p->width > 0 && p->whole >= p->width && "a mean is over all of a row");
    int n = (call->part + 1) / 2;
    enum term term = term_of(p, n);
    bool fills = call->part % 2 == 1, is_last = term_of(p, n + 1) == TERM_NONE;
    if (p->kept_bytes < (int64_t)sizeof(struct known))
        return "a norm that ranks share needs rows of 3 reals on each";
    // Nothing can be said yet: parts 1 and on follow.
    if (call->part == 0) return NULL;
    if (term == TERM_NONE) return "a norm has no such exchange";
    if (array_elements(&call->inner) != p->rows) return "no room to exchange";
    for (int k = 1; k < call->output_count && !fills && is_last; k++)
        call_begin_sum(call, k);
    for (int64_t row = 0; row < p->rows; row++) {
        if (fills) {
            p->inner[row] = term_sum(p, term, row);
            continue;
        }
        struct known known = take_in(p, term, row);
        if (is_last) finish_row(p, call, &known, row);
        if (!is_last) memcpy(p->kept + row * p->kept_bytes, &known, sizeof known);
    }
    return NULL;
}

// Of a call whose rows are split; a `width` of 0 where they are whole.
static struct parts parts_of(const struct kernel_call *call, int x)
{
    const struct kernel_array *rows = &call->inputs[x];
    int weight = x + 1, bias = x + 2;
    int64_t width = call_norm_width(call, x), whole = call_norm_whole(call, x);
    if (width == whole || call->op->groups > 1) return (struct parts){.width = 0};
    return (struct parts){
        .op = call->op,
        .width = width,
        .whole = whole,
        .rows = width > 0 ? array_elements(rows) / width : 0,
        .x = rows->data,
        .weight = call->input_count > weight ? call->inputs[weight].data : NULL,
        .bias = call->input_count > bias ? call->inputs[bias].data : NULL,
        .d = x > 0 ? call->inputs[0].data : NULL,
        .y = call->outputs[0].data,
        .inner = call->inner.data,
        .kept = call->kept ? call->kept : call->outputs[0].data,
        .kept_bytes = width * (call->kept ? 2 : (int64_t)sizeof(REAL)),
    };
}

const char *cpu_norm(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct parts parts = parts_of(call, 0);
    if (parts.width > 0) return run_part(&parts, call);
    int64_t width = call_norm_width(call, 0), elements = array_elements(&call->inputs[0]);
    const REAL *x = call->inputs[0].data;
    REAL *y = call->outputs[0].data;
    const REAL *weight = call->input_count > 1 ? call->inputs[1].data : NULL;
    const REAL *bias = call->input_count > 2 ? call->inputs[2].data : NULL;
    int64_t each = call_norm_each(call, 0);
    for (int64_t i = 0; i < elements; i += each) {
        int64_t at = i % width;
        norm_row(call->op, each, x + i, weight ? weight + at : NULL, bias ? bias + at : NULL,
                 y + i);
    }
    return NULL;
}

// With n = (x - mean) * inverse and g = d_out * weight:
// d_x = inverse * (g - n * mean(g * n) - mean(g), the last for layer norm only).
struct backward {
    const struct op *op;
    int64_t width;
    const REAL *weight;  // NULL where the norm has none
    REAL *d_weight, *d_bias;
};

FAST static void parameters_backward(const struct backward *b, struct norm_moments m, const REAL *d,
                                     const REAL *x)
{
    int64_t width = b->width;
    REAL *d_weight = b->d_weight, *d_bias = b->d_bias;
    if (d_weight) {
        VECTOR for (int64_t i = 0; i < width; i++)
        {
            d_weight[i] += d[i] * (x[i] - m.mean) * m.inverse;
        }
    }
    if (d_bias) {
        VECTOR for (int64_t i = 0; i < width; i++) d_bias[i] += d[i];
    }
}

FAST static void input_backward(const struct backward *b, struct norm_moments m, const REAL *d,
                                const REAL *x, REAL *d_x)
{
    int64_t width = b->width;
    const REAL *weight = b->weight;
    REAL sum_g = SUM(i, 0, width, slope(d, weight, i));
    REAL sum_gn = SUM(i, 0, width, slope(d, weight, i) * ((x[i] - m.mean) * m.inverse));
    REAL mean_g = b->op->function == FUNCTION_LAYER_NORM ? sum_g / (REAL)width : 0;
    REAL mean_gn = sum_gn / (REAL)width;
    VECTOR for (int64_t i = 0; i < width; i++)
    {
        REAL n = (x[i] - m.mean) * m.inverse, g = slope(d, weight, i);
        d_x[i] = m.inverse * (g - n * mean_gn - mean_g);
    }
}

// The same of the group that begins at an element of the row.
static struct backward backward_at(const struct backward *b, int64_t first)
{
    struct backward at = *b;
    if (at.weight) at.weight += first;
    if (at.d_weight) at.d_weight += first;
    if (at.d_bias) at.d_bias += first;
    return at;
}

FAST static struct norm_moments row_moments(const struct op *op, const REAL *x, int64_t width)
{
    return moments_of(op, x, width);
}

const char *cpu_norm_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct parts parts = parts_of(call, 1);
    if (parts.width > 0) return run_part(&parts, call);
    struct backward backward = {.op = call->op,
                                .width = call_norm_each(call, 1),
                                .weight = call->input_count > 2 ? call->inputs[2].data : NULL};
    if (call->output_count > 1) {
        call_begin_sum(call, 1);
        backward.d_weight = call->outputs[1].data;
    }
    if (call->output_count > 2) {
        call_begin_sum(call, 2);
        backward.d_bias = call->outputs[2].data;
    }
    const REAL *d = call->inputs[0].data, *x = call->inputs[1].data;
    REAL *d_x = call->outputs[0].data;
    int64_t elements = array_elements(&call->inputs[1]);
    for (int64_t i = 0; i < elements; i += backward.width) {
        struct norm_moments m = row_moments(call->op, x + i, backward.width);
        struct backward at = backward_at(&backward, i % call_norm_width(call, 1));
        // Parameters first: d_x may take the place of what they read.
        parameters_backward(&at, m, d + i, x + i);
        input_backward(&at, m, d + i, x + i, d_x + i);
    }
    return NULL;
}
