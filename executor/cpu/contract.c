#include "executor/contraction.h"
#include "executor/cpu/array.h"

#include <limits.h>
#include <sys/mman.h>

// BLAS wants a stride of 1 in each matrix: what has none is copied first.

#define BLAS_MULTIPLY _Generic((REAL)0, float : cblas_sgemm, double : cblas_dgemm)

bool cpu_reserve_products(void)
{
    // 128 MiB (OpenBLAS 0.3.21, BUFFER_SIZE of x86-64) and what aligns them.
    enum { BUFFER_BYTES = 160 << 20 };
    void *room = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, BUFFER_BYTES);
    const REAL one = 1;
    REAL product = 0;
    BLAS_MULTIPLY(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &one, 1, &one, 1, 0,
                  &product, 1);
    return product == 1;
}

void cpu_multiply(const struct cpu_matmul *p)
{
    BLAS_MULTIPLY(CblasRowMajor, p->is_a_turned ? CblasTrans : CblasNoTrans,
                  p->is_b_turned ? CblasTrans : CblasNoTrans, (int)p->rows, (int)p->columns,
                  (int)p->inner, (REAL)p->alpha, p->a, (int)p->a_stride, p->b, (int)p->b_stride,
                  (REAL)p->beta, p->c, (int)p->c_stride);
}

// A matrix of a GEMM as it lies in memory: turned when it is its columns that are far apart.
struct cpu_matrix {
    REAL *data;
    int64_t rows, columns, row_stride, column_stride;
};

static bool is_plain(const struct cpu_matrix *m)
{
    return (m->columns == 1 || m->column_stride == 1) && (m->rows == 1 || m->row_stride > 0);
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

// Copies a matrix without stride 1 to scratch; NULL without memory.
static bool pack(struct cpu_device *device, enum scratch scratch, struct cpu_matrix *m)
{
    int64_t bytes = m->rows * m->columns * (int64_t)sizeof(REAL);
    REAL *packed = cpu_scratch(device, scratch, bytes);
    if (!packed) return false;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            packed[i * m->columns + j] = m->data[i * m->row_stride + j * m->column_stride];
    }
    *m = (struct cpu_matrix){packed, m->rows, m->columns, m->columns, 1};
    return true;
}

static struct cpu_matrix turned(struct cpu_matrix m)
{
    return (struct cpu_matrix){m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

static bool operand(struct cpu_device *device, enum scratch scratch, struct cpu_matrix m,
                    bool *is_turned, const REAL **data, int64_t *stride)
{
    struct cpu_matrix other = turned(m);
    *is_turned = !is_plain(&m) && is_plain(&other);
    if (*is_turned) m = other;
    if (!is_plain(&m) && !pack(device, scratch, &m)) return false;
    *data = m.data;
    *stride = at_least(m.rows == 1 ? 0 : m.row_stride, m.columns);
    return true;
}

static void scatter(const struct cpu_matrix *to, const REAL *from, double beta)
{
    for (int64_t i = 0; i < to->rows; i++) {
        for (int64_t j = 0; j < to->columns; j++) {
            REAL *at = &to->data[i * to->row_stride + j * to->column_stride];
            *at = from[i * to->columns + j] + (beta != 0 ? *at : 0);
        }
    }
}

// C is never packed but written by way of scratch; a C whose rows lie far apart is the GEMM of
// the turned matrices in the other order.
static const char *multiply(struct cpu_device *device, struct cpu_matrix a, struct cpu_matrix b,
                            struct cpu_matrix c, double alpha, double beta)
{
    struct cpu_matrix other = turned(c);
    if (!is_plain(&c) && is_plain(&other)) {
        struct cpu_matrix first = turned(b);
        b = turned(a);
        a = first;
        c = other;
    }
    struct cpu_matmul p = {.rows = c.rows,
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
        if (!p.c) return cpu_no_memory(device);
    }
    if (!operand(device, SCRATCH_A, a, &p.is_a_turned, &p.a, &p.a_stride) ||
        !operand(device, SCRATCH_B, b, &p.is_b_turned, &p.b, &p.b_stride)) {
        return cpu_no_memory(device);
    }
    cpu_multiply(&p);
    if (!is_direct) scatter(&c, p.c, beta);
    return NULL;
}

// One GEMM for each step of what is summed in loops: the first writes, the others add.
static const char *sum_products(struct cpu_device *device, const struct kernel_call *call,
                                const struct einsum *e, struct contraction_place place)
{
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    double alpha = call->op->scalar, beta = call_adds(call, 0) ? 1 : 0;
    do {
        struct cpu_matrix a = {(REAL *)call->inputs[0].data + place.a, e->row.size, e->sum.size,
                               e->row.a, e->sum.a};
        struct cpu_matrix b = {(REAL *)call->inputs[1].data + place.b, e->sum.size, e->column.size,
                               e->sum.b, e->column.b};
        struct cpu_matrix c = {(REAL *)call->outputs[0].data + place.c, e->row.size, e->column.size,
                               e->row.c, e->column.c};
        const char *fault = multiply(device, a, b, c, alpha, beta);
        if (fault) return fault;
        beta = 1;
    } while (einsum_next(&e->inner_loops, index, &place));
    return NULL;
}

const char *cpu_contract(struct cpu_device *device, const struct kernel_call *call)
{
    if (array_elements(&call->outputs[0]) == 0) return NULL;
    if (array_elements(&call->inputs[0]) == 0 || array_elements(&call->inputs[1]) == 0) {
        call_begin_sum(call, 0);
        return NULL;
    }
    struct einsum e = einsum_of(call);
    int64_t largest = at_least(at_least(e.row.size, e.column.size), e.sum.size);
    if (largest > INT_MAX) return "a matrix of more than 2^31 rows";
    struct contraction_place place = {0, 0, 0};
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    const char *fault = NULL;
    do {
        fault = sum_products(device, call, &e, place);
    } while (!fault && einsum_next(&e.loops, index, &place));
    return fault;
}
