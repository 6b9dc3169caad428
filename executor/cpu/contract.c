#include "executor/cpu/array.h"

#include <assert.h>
#include <limits.h>

// An einsum of two inputs as products of matrices: dims in both inputs and the output are looped
// over, those of the output and one input become rows and columns, those of the inputs alone are
// summed. Neighbours that lie one after another in memory are one dim; what is left over of a group
// is looped over too. BLAS wants a stride of 1 in each matrix: what has none is copied first.

#define BLAS_MULTIPLY _Generic((REAL)0, float : cblas_sgemm, double : cblas_dgemm)

void cpu_multiply(const struct product *p)
{
    BLAS_MULTIPLY(CblasRowMajor, p->is_a_turned ? CblasTrans : CblasNoTrans,
                  p->is_b_turned ? CblasTrans : CblasNoTrans, (int)p->rows, (int)p->columns,
                  (int)p->inner, (REAL)p->alpha, p->a, (int)p->a_stride, p->b, (int)p->b_stride,
                  (REAL)p->beta, p->c, (int)p->c_stride);
}

// One dim, and how far a step along it leads in each array; 0 where one lacks it.
struct axis_of {
    int64_t size, a, b, c;
};
struct axes {
    struct axis_of axis[2 * TENSOR_RANK_MAX];
    int count;
};
struct einsum {
    struct axes loops, rows, columns, inner, inner_loops;
    struct axis_of row, column, sum;  // of one product
    double alpha;
    bool adds;
};

// Kept by falling stride in the output, or in the first input where there is none.
static void insert(struct axes *axes, struct axis_of axis)
{
    int at = axes->count++;
    for (; at > 0; at--) {
        const struct axis_of *before = &axes->axis[at - 1];
        bool is_behind = before->c != axis.c ? before->c > axis.c : before->a >= axis.a;
        if (is_behind) break;
        axes->axis[at] = *before;
    }
    axes->axis[at] = axis;
}

static void classify(struct einsum *e, struct axis_of axis)
{
    if (axis.size == 1) return;
    if (axis.c == 0) {
        insert(&e->inner, axis);
    } else if ((axis.a != 0) == (axis.b != 0)) {
        insert(&e->loops, axis);
    } else {
        insert(axis.a != 0 ? &e->rows : &e->columns, axis);
    }
}

static int64_t stride_of(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 0 : array_stride(array, at);
}

// Every dim of the call once. A dim of size 1 is nobody's; false when some dim is empty.
static void read_axes(const struct kernel_call *call, struct einsum *e)
{
    const struct kernel_array *a = &call->inputs[0], *b = &call->inputs[1], *c = call->outputs;
    const struct kernel_array *arrays[3] = {a, b, c};
    bool seen[DIM_COUNT] = {false};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < arrays[i]->rank; j++) {
            enum dim dim = arrays[i]->dims[j];
            if (seen[dim]) continue;
            seen[dim] = true;
            classify(e, (struct axis_of){arrays[i]->sizes[j], stride_of(a, dim), stride_of(b, dim),
                                         stride_of(c, dim)});
        }
    }
}

static bool lies_inside(const struct axis_of *outer, const struct axis_of *inner)
{
    return outer->a == inner->a * inner->size && outer->b == inner->b * inner->size &&
           outer->c == inner->c * inner->size;
}

static void join_neighbours(struct axes *axes)
{
    int kept = 0;
    for (int i = 1; i < axes->count; i++) {
        struct axis_of *last = &axes->axis[kept], *axis = &axes->axis[i];
        if (lies_inside(last, axis)) {
            int64_t size = last->size * axis->size;
            *last = *axis;
            last->size = size;
        } else {
            axes->axis[++kept] = *axis;
        }
    }
    if (axes->count > 0) axes->count = kept + 1;
}

// The dim of a group that the product takes: one of stride 1 in the output or else in an input, or
// the largest; the others go to `loops`.
static struct axis_of pick(struct axes *axes, struct axes *loops)
{
    if (axes->count == 0) return (struct axis_of){1, 0, 0, 0};
    join_neighbours(axes);
    int best = 0;
    int64_t best_worth = -1;
    for (int i = 0; i < axes->count; i++) {
        const struct axis_of *axis = &axes->axis[i];
        int64_t worth = axis->size;
        if (axis->a == 1 || axis->b == 1) worth += INT64_C(1) << 40;
        if (axis->c == 1) worth += INT64_C(1) << 41;
        if (worth > best_worth) best_worth = worth, best = i;
    }
    for (int i = 0; i < axes->count; i++) {
        if (i != best) loops->axis[loops->count++] = axes->axis[i];
    }
    return axes->axis[best];
}

// A matrix of a product as it lies in memory: turned when it is its columns that are far apart.
struct matrix {
    REAL *data;
    int64_t rows, columns, row_stride, column_stride;
};

static bool is_plain(const struct matrix *m)
{
    return m->columns == 1 || (m->column_stride == 1 && (m->rows == 1 || m->row_stride > 0));
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

// Copies a matrix without stride 1 to scratch; NULL without memory.
static bool pack(struct cpu_device *device, enum scratch scratch, struct matrix *m)
{
    int64_t bytes = m->rows * m->columns * (int64_t)sizeof(REAL);
    REAL *packed = cpu_scratch(device, scratch, bytes);
    if (!packed) return false;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            packed[i * m->columns + j] = m->data[i * m->row_stride + j * m->column_stride];
    }
    *m = (struct matrix){packed, m->rows, m->columns, m->columns, 1};
    return true;
}

static struct matrix turned(struct matrix m)
{
    return (struct matrix){m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

static bool operand(struct cpu_device *device, enum scratch scratch, struct matrix m,
                    bool *is_turned, const REAL **data, int64_t *stride)
{
    struct matrix other = turned(m);
    *is_turned = !is_plain(&m) && is_plain(&other);
    if (*is_turned) m = other;
    if (!is_plain(&m) && !pack(device, scratch, &m)) return false;
    *data = m.data;
    *stride = at_least(m.rows == 1 ? 0 : m.row_stride, m.columns);
    return true;
}

static void scatter(const struct matrix *to, const REAL *from, double beta)
{
    for (int64_t i = 0; i < to->rows; i++) {
        for (int64_t j = 0; j < to->columns; j++) {
            REAL *at = &to->data[i * to->row_stride + j * to->column_stride];
            *at = from[i * to->columns + j] + (beta != 0 ? *at : 0);
        }
    }
}

// C is never packed but written by way of scratch; a C whose rows lie far apart is the product of
// the turned matrices in the other order.
static const char *multiply(struct cpu_device *device, struct matrix a, struct matrix b,
                            struct matrix c, double alpha, double beta)
{
    struct matrix other = turned(c);
    if (!is_plain(&c) && is_plain(&other)) {
        struct matrix first = turned(b);
        b = turned(a);
        a = first;
        c = other;
    }
    struct product p = {.rows = c.rows,
                        .columns = c.columns,
                        .inner = a.columns,
                        .alpha = alpha,
                        .beta = beta,
                        .c = c.data,
                        .c_stride = at_least(c.rows == 1 ? 0 : c.row_stride, c.columns)};
    bool is_direct = is_plain(&c);
    if (!is_direct) {
        p.c = cpu_scratch(device, SCRATCH_C, c.rows * c.columns * (int64_t)sizeof(REAL));
        p.c_stride = c.columns;
        p.beta = 0;
        if (!p.c) return CPU_NO_MEMORY;
    }
    if (!operand(device, SCRATCH_A, a, &p.is_a_turned, &p.a, &p.a_stride) ||
        !operand(device, SCRATCH_B, b, &p.is_b_turned, &p.b, &p.b_stride)) {
        return CPU_NO_MEMORY;
    }
    cpu_multiply(&p);
    if (!is_direct) scatter(&c, p.c, beta);
    return NULL;
}

struct place {
    int64_t a, b, c;
};

// Counts through the loops, the last fastest; false when all are done.
static bool next(const struct axes *loops, int64_t index[], struct place *place)
{
    for (int i = loops->count - 1; i >= 0; i--) {
        const struct axis_of *axis = &loops->axis[i];
        place->a += axis->a;
        place->b += axis->b;
        place->c += axis->c;
        if (++index[i] < axis->size) return true;
        place->a -= axis->a * axis->size;
        place->b -= axis->b * axis->size;
        place->c -= axis->c * axis->size;
        index[i] = 0;
    }
    return false;
}

// One product for each step of what is summed in loops: the first writes, the others add.
static const char *sum_products(struct cpu_device *device, const struct kernel_call *call,
                                const struct einsum *e, struct place place)
{
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    double beta = e->adds ? 1 : 0;
    do {
        struct matrix a = {(REAL *)call->inputs[0].data + place.a, e->row.size, e->sum.size,
                           e->row.a, e->sum.a};
        struct matrix b = {(REAL *)call->inputs[1].data + place.b, e->sum.size, e->column.size,
                           e->sum.b, e->column.b};
        struct matrix c = {(REAL *)call->outputs[0].data + place.c, e->row.size, e->column.size,
                           e->row.c, e->column.c};
        const char *fault = multiply(device, a, b, c, e->alpha, beta);
        if (fault) return fault;
        beta = 1;
    } while (next(&e->inner_loops, index, &place));
    return NULL;
}

const char *cpu_contract(struct cpu_device *device, const struct kernel_call *call)
{
    struct einsum e = {.alpha = call->op->scalar, .adds = call_adds(call, 0)};
    if (array_elements(&call->outputs[0]) == 0) return NULL;
    if (array_elements(&call->inputs[0]) == 0 || array_elements(&call->inputs[1]) == 0) {
        call_begin_sum(call, 0);
        return NULL;
    }
    read_axes(call, &e);
    e.row = pick(&e.rows, &e.loops);
    e.column = pick(&e.columns, &e.loops);
    e.sum = pick(&e.inner, &e.inner_loops);
    int64_t largest = at_least(at_least(e.row.size, e.column.size), e.sum.size);
    if (largest > INT_MAX) return "a matrix of more than 2^31 rows";
    struct place place = {0, 0, 0};
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    const char *fault = NULL;
    do {
        fault = sum_products(device, call, &e, place);
    } while (!fault && next(&e.loops, index, &place));
    return fault;
}
