#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"

// Matrices whose rows and columns sum up to one (OP_SINKHORN): small ones, a token at a time.
// Backward makes each step again and goes back through all of them.

struct sinkhorn {
    int64_t rows, columns;
    REAL epsilon;
    int steps;    // divisions: by sums of columns, and between these of rows
    REAL *made;   // [steps + 1][rows][columns]: softmax and epsilon, and what each step makes
    REAL *sums;   // [steps][the more of rows and columns]
    REAL *slope;  // [rows][columns]
};

// Lines that are divided by their sums, columns and rows in turn.
struct lines {
    int64_t count, size, between, along;  // how far it is to the next line, and within one
};
static struct lines lines_of(const struct sinkhorn *s, int step)
{
    bool is_by_column = step % 2 == 0;
    if (is_by_column) return (struct lines){s->columns, s->rows, 1, s->columns};
    return (struct lines){s->rows, s->columns, s->columns, 1};
}

static int64_t most_lines(const struct sinkhorn *s)
{
    return s->rows > s->columns ? s->rows : s->columns;
}

static void softmax_rows(const struct sinkhorn *s, const REAL *x, REAL *y)
{
    for (int64_t r = 0; r < s->rows; r++, x += s->columns, y += s->columns) {
        REAL largest = x[0], sum = 0;
        for (int64_t c = 1; c < s->columns; c++)
            largest = x[c] > largest ? x[c] : largest;
        for (int64_t c = 0; c < s->columns; c++)
            sum += y[c] = real_exp(x[c] - largest);
        for (int64_t c = 0; c < s->columns; c++)
            y[c] = y[c] / sum + s->epsilon;
    }
}

static void divide(const struct sinkhorn *s, int step, const REAL *x, REAL *sums, REAL *y)
{
    struct lines lines = lines_of(s, step);
    for (int64_t l = 0; l < lines.count; l++) {
        int64_t first = l * lines.between;
        REAL sum = s->epsilon;
        for (int64_t i = 0; i < lines.size; i++)
            sum += x[first + i * lines.along];
        for (int64_t i = 0; i < lines.size; i++)
            y[first + i * lines.along] = x[first + i * lines.along] / sum;
        sums[l] = sum;
    }
}

static void make(const struct sinkhorn *s, const REAL *x)
{
    int64_t size = s->rows * s->columns;
    softmax_rows(s, x, s->made);
    for (int step = 0; step < s->steps; step++)
        divide(s, step, s->made + step * size, s->sums + step * most_lines(s),
               s->made + (step + 1) * size);
}

// y = x / (sum x + epsilon): d_x = (d_y - sum of d_y y) / (sum x + epsilon), in place.
static void divide_backward(const struct sinkhorn *s, int step, REAL *d)
{
    struct lines lines = lines_of(s, step);
    const REAL *y = s->made + (step + 1) * s->rows * s->columns;
    for (int64_t l = 0; l < lines.count; l++) {
        int64_t first = l * lines.between;
        REAL sum = 0;
        for (int64_t i = 0; i < lines.size; i++)
            sum += d[first + i * lines.along] * y[first + i * lines.along];
        for (int64_t i = 0; i < lines.size; i++) {
            REAL *at = d + first + i * lines.along;
            *at = (*at - sum) / s->sums[step * most_lines(s) + l];
        }
    }
}

static void softmax_backward(const struct sinkhorn *s, const REAL *d, REAL *d_x)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const REAL *made = s->made + r * s->columns, *of = d + r * s->columns;
        REAL sum = 0;
        for (int64_t c = 0; c < s->columns; c++)
            sum += of[c] * (made[c] - s->epsilon);
        for (int64_t c = 0; c < s->columns; c++)
            d_x[r * s->columns + c] = (made[c] - s->epsilon) * (of[c] - sum);
    }
}

static const char *open_call(struct cpu_device *device, const struct kernel_call *call,
                             const struct kernel_array *x, struct sinkhorn *s)
{
    const struct op *op = call->op;
    if (x->rank < 2 || op->rounds < 1) return "matrices of rows and columns are wanted";
    *s = (struct sinkhorn){.rows = x->sizes[x->rank - 2],
                           .columns = array_last(x),
                           .epsilon = (REAL)op->scalar,
                           .steps = 2 * op->rounds - 1};
    int64_t size = s->rows * s->columns;
    int64_t reals = (s->steps + 2) * size + s->steps * most_lines(s);
    s->made = cpu_scratch(device, SCRATCH_ROWS, reals * (int64_t)sizeof(REAL));
    if (!s->made) return cpu_no_memory(device);
    s->sums = s->made + (s->steps + 1) * size;
    s->slope = s->sums + s->steps * most_lines(s);
    return NULL;
}

const char *cpu_sinkhorn(struct cpu_device *device, const struct kernel_call *call)
{
    struct sinkhorn s;
    const struct kernel_array *x = &call->inputs[0];
    const char *fault = open_call(device, call, x, &s);
    int64_t size = fault ? 1 : s.rows * s.columns, elements = array_elements(x);
    for (int64_t i = 0; i < elements && !fault; i += size) {
        make(&s, (const REAL *)x->data + i);
        memcpy((REAL *)call->outputs[0].data + i, s.made + s.steps * size,
               (size_t)size * sizeof(REAL));
    }
    return fault;
}

const char *cpu_sinkhorn_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct sinkhorn s;
    const struct kernel_array *d = &call->inputs[0], *x = &call->inputs[1];
    const char *fault = open_call(device, call, x, &s);
    int64_t size = fault ? 1 : s.rows * s.columns, elements = array_elements(x);
    for (int64_t i = 0; i < elements && !fault; i += size) {
        make(&s, (const REAL *)x->data + i);
        memcpy(s.slope, (const REAL *)d->data + i, (size_t)size * sizeof(REAL));
        for (int step = s.steps - 1; step >= 0; step--)
            divide_backward(&s, step, s.slope);
        softmax_backward(&s, s.slope, (REAL *)call->outputs[0].data + i);
    }
    return fault;
}
