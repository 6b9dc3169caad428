#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"
#include "executor/linear_loss_call.h"

#include <assert.h>

// A product and the loss of its scores, of which one part of the columns is there at a time
// (models/op_linear_loss.h). Until all parts are known a loss holds the log-sum-exp of those that
// were, and the log-sum-exp the label's score. Where ranks hold parts of the vocabulary, they
// exchange the largest of their log-sum-exps, the sum of what the others are beside it, and the
// label's score, which is made again, by itself. Columns past the vocabulary do not count and get
// no gradient; nor does a label that is negative.

struct scores {
    struct linear_loss_call of;
    const REAL *x, *weight;
    const int64_t *labels;
    REAL *part;         // [rows][width]
    int64_t at, width;  // of the part
    double factor;
};

// With room for the widest part where `makes` says so.
static const char *begin(struct cpu_device *device, const struct kernel_call *call, int input,
                         bool makes, struct scores *s)
{
    *s = (struct scores){.x = call->inputs[input].data,
                         .weight = call->inputs[input + 1].data,
                         .labels = call->inputs[input + 2].data,
                         .factor = call->op->scalar};
    const char *fault = linear_loss_read(call, input, &s->of);
    if (fault || !makes) return fault;
    int64_t bytes = s->of.rows * s->of.width * (int64_t)sizeof(REAL);
    s->part = cpu_scratch(device, SCRATCH_SCORES, bytes + 1);
    return s->part ? NULL : cpu_no_memory(device);
}

// Where a column's numbers begin in the matrix, or in its gradient.
static int64_t column_at(const struct scores *s, int64_t column)
{
    return s->of.is_turned ? column * s->of.depth : column;
}
static int64_t matrix_stride(const struct scores *s)
{
    return s->of.is_turned ? s->of.depth : s->of.columns;
}

static void make_part(struct scores *s, int64_t at)
{
    assert(at >= 0 && at < s->of.columns);
    s->at = at;
    s->width = linear_loss_columns(&s->of, at);
    cpu_multiply(&(struct cpu_matmul){.is_b_turned = s->of.is_turned,
                                      .rows = s->of.rows,
                                      .columns = s->width,
                                      .inner = s->of.depth,
                                      .alpha = s->factor,
                                      .a = s->x,
                                      .b = s->weight + column_at(s, at),
                                      .c = s->part,
                                      .a_stride = s->of.x_stride,
                                      .b_stride = matrix_stride(s),
                                      .c_stride = s->width});
}

// The log-sum-exp of a row's part that exists, joined with that of the parts before.
static REAL join_part(const struct scores *s, int64_t row, REAL before)
{
    int64_t real = linear_loss_real(&s->of, s->at);
    if (real == 0) return before;
    const REAL *x = s->part + row * s->width;
    REAL most = cpu_largest(real, x), larger = most > before ? most : before;
    double sum = (double)real_exp(most - larger) * cpu_sum_exp(real, most, x);
    if (s->at > 0) sum += (double)real_exp(before - larger);
    return larger + (REAL)log(sum);
}

static bool is_here(const struct scores *s, int64_t row)
{
    int64_t column = s->labels[row] - s->of.first;
    return column >= 0 && column < s->of.real;
}

// `value` becomes the log-sum-exp of the columns here; `label` the label's score, 0 elsewhere.
static void sum_parts(struct scores *s, REAL *value, REAL *label)
{
    for (int64_t row = 0; row < s->of.rows; row++) {
        value[row] = -(REAL)HUGE_VAL;
        label[row] = 0;
    }
    for (int64_t at = 0; at < s->of.columns; at += s->of.width) {
        make_part(s, at);
        for (int64_t row = 0; row < s->of.rows; row++) {
            int64_t column = s->labels[row] - s->of.first - at;
            value[row] = join_part(s, row, value[row]);
            if (is_here(s, row) && column >= 0 && column < s->width)
                label[row] = s->part[row * s->width + column];
        }
    }
}

static REAL label_score(const struct scores *s, int64_t row)
{
    if (!is_here(s, row)) return 0;
    const REAL *x = s->x + row * s->of.x_stride;
    const REAL *column = s->weight + column_at(s, s->labels[row] - s->of.first);
    int64_t step = s->of.is_turned ? 1 : s->of.columns;
    return (REAL)s->factor * SUM(i, 0, s->of.depth, x[i] * column[i * step]);
}

static void part_of_row(const struct scores *s, int part, int64_t row, REAL *value, REAL *lse,
                        REAL *inner)
{
    assert(part >= 1 && part <= 6);
    switch (part) {
    case 1:
        *inner = *value;
        break;
    case 2:
        *lse = *inner;
        break;
    case 3:
        *inner = real_exp(*value - *lse);
        break;
    case 4:
        *lse += (REAL)log((double)*inner);
        break;
    case 5:
        *inner = label_score(s, row);
        break;
    default:
        *value = s->labels[row] < 0 ? 0 : *lse - *inner;
    }
}

const char *cpu_linear_loss(struct cpu_device *device, const struct kernel_call *call)
{
    struct scores s;
    bool makes = call->part < 2;
    REAL *value = call->outputs[0].data, *lse = call->outputs[1].data, *inner = call->inner.data;
    const char *fault = begin(device, call, 0, makes, &s);
    // Nothing can be said yet: parts 1 to 6 follow.
    if (fault || (call->part == 0 && s.of.is_split)) return fault;
    if (makes) sum_parts(&s, value, lse);
    for (int64_t row = 0; row < s.of.rows; row++) {
        if (call->part > 0) {
            part_of_row(&s, call->part, row, &value[row], &lse[row], &inner[row]);
        } else {
            REAL label = lse[row];
            lse[row] = value[row];
            value[row] = s.labels[row] < 0 ? 0 : lse[row] - label;
        }
    }
    return NULL;
}

FAST static void row_backward(int64_t count, REAL gradient, REAL lse, REAL *x)
{
    VECTOR for (int64_t i = 0; i < count; i++) x[i] = gradient * real_exp(x[i] - lse);
}

// Scores become their gradient.
static void turn_part(const struct scores *s, const REAL *d, const REAL *lse)
{
    int64_t real = linear_loss_real(&s->of, s->at);
    for (int64_t row = 0; row < s->of.rows; row++) {
        REAL *x = s->part + row * s->width, gradient = s->labels[row] < 0 ? 0 : d[row];
        int64_t column = s->labels[row] - s->of.first - s->at;
        row_backward(real, gradient, lse[row], x);
        for (int64_t i = real; i < s->width; i++)
            x[i] = 0;
        if (is_here(s, row) && column >= 0 && column < s->width) x[column] -= gradient;
    }
}

static void add_rows(const struct scores *s, const struct kernel_array *d_x, bool adds)
{
    cpu_multiply(&(struct cpu_matmul){.is_b_turned = !s->of.is_turned,
                                      .rows = s->of.rows,
                                      .columns = s->of.depth,
                                      .inner = s->width,
                                      .alpha = s->factor,
                                      .beta = adds || s->at > 0,
                                      .a = s->part,
                                      .b = s->weight + column_at(s, s->at),
                                      .c = d_x->data,
                                      .a_stride = s->width,
                                      .b_stride = matrix_stride(s),
                                      .c_stride = array_stride(d_x, d_x->rank - 2)});
}

static void add_columns(const struct scores *s, const struct kernel_array *d_weight, bool adds)
{
    struct cpu_matmul product = {.is_a_turned = true,
                                 .rows = s->of.depth,
                                 .columns = s->width,
                                 .inner = s->of.rows,
                                 .alpha = s->factor,
                                 .beta = adds,
                                 .a = s->x,
                                 .b = s->part,
                                 .c = (REAL *)d_weight->data + column_at(s, s->at),
                                 .a_stride = s->of.x_stride,
                                 .b_stride = s->width,
                                 .c_stride = matrix_stride(s)};
    if (s->of.is_turned) {
        product.rows = s->width, product.columns = s->of.depth;
        product.a = s->part, product.a_stride = s->width;
        product.b = s->x, product.b_stride = s->of.x_stride;
    }
    cpu_multiply(&product);
}

const char *cpu_linear_loss_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct scores s;
    const char *fault = begin(device, call, 1, true, &s);
    if (fault) return fault;
    for (int i = 0; i < call->output_count && (s.of.rows == 0 || s.of.columns == 0); i++)
        call_begin_sum(call, i);
    if (s.of.rows == 0) return NULL;
    for (int64_t at = 0; at < s.of.columns; at += s.of.width) {
        make_part(&s, at);
        turn_part(&s, call->inputs[0].data, call->inputs[4].data);
        add_rows(&s, &call->outputs[0], call_adds(call, 0));
        if (call->output_count > 1) add_columns(&s, &call->outputs[1], call_adds(call, 1));
    }
    return NULL;
}
