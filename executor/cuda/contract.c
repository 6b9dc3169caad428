#include "executor/contraction.h"
#include "executor/cuda/cuda.h"

#include <assert.h>
#include <limits.h>

// An einsum as GEMMs of matrices, the largest of its loops as a batch.

// Row-major, rows apart or not; one row or one column lies well either way.
static bool is_plain(const struct matrix *m, int64_t rows, int64_t columns)
{
    return (columns == 1 || m->column_stride == 1) && (rows == 1 || m->row_stride >= columns);
}

static struct matrix turned(struct matrix m)
{
    return (struct matrix){m.reals, m.column_stride, m.row_stride, m.batch_stride};
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

// Between a dense copy [batch][rows][columns] and the matrix where it lies.
static struct terms_args copy_of(const struct cuda_matmul *p, struct matrix to, struct matrix from,
                                 int64_t rows, int64_t columns)
{
    return (struct terms_args){
        .rank = 3,
        .term_count = 1,
        .sizes = {p->batch, rows, columns},
        .out = to.reals,
        .out_strides = {to.batch_stride, to.row_stride, to.column_stride},
        .term = {from.reals},
        .strides = {{from.batch_stride, from.row_stride, from.column_stride}}};
}

static struct matrix dense(void *data, int number, int64_t rows, int64_t columns)
{
    return (struct matrix){{data, number}, columns, 1, rows * columns};
}

struct multiply {
    struct cuda_device *device;
    enum stream stream;
    const struct cuda_matmul *product;
    int number;  // of both operands
};

// Whether a GEMM can read it where it lies; as it is stored.
static bool is_readable(struct matrix m, int64_t rows, int64_t columns, bool *is_turned,
                        struct matrix *result)
{
    struct matrix other = turned(m);
    *is_turned = !is_plain(&m, rows, columns) && is_plain(&other, columns, rows);
    if (!*is_turned && !is_plain(&m, rows, columns)) return false;
    int64_t width = *is_turned ? rows : columns, height = *is_turned ? columns : rows;
    *result = *is_turned ? other : m;
    // One row's stride says nothing, and the library wants one that rows fit into.
    result->row_stride = at_least(height == 1 ? 0 : result->row_stride, width);
    assert(result->row_stride >= width);
    return true;
}

// Packed into scratch where its number is another or neither side's rows are plain.
static bool operand(const struct multiply *by, enum scratch scratch, struct matrix m, int64_t rows,
                    int64_t columns, bool *is_turned, struct matrix *result)
{
    bool fits = m.reals.number == by->number;
    if (fits && is_readable(m, rows, columns, is_turned, result)) return true;
    *is_turned = false;
    int64_t bytes = by->product->batch * rows * columns * number_bytes(by->number);
    void *packed = cuda_scratch(by->device, by->stream, scratch, bytes);
    if (!packed) return false;
    *result = dense(packed, by->number, rows, columns);
    struct terms_args args = copy_of(by->product, *result, m, rows, columns);
    kernel_terms(by->device->streams[by->stream], &args);
    return true;
}

// Sizes and factors; what lies where comes by `place`.
static struct cuda_gemm gemm_of(const struct cuda_matmul *p)
{
    return (struct cuda_gemm){.rows = p->rows,
                              .columns = p->columns,
                              .inner = p->inner,
                              .batch = p->batch,
                              .alpha = (float)p->alpha,
                              .beta = (float)p->beta};
}

static void place(struct cuda_gemm *gemm, const struct matrix *a, const struct matrix *b,
                  const struct matrix *c)
{
    gemm->a = a->reals, gemm->b = b->reals, gemm->c = c->reals;
    gemm->a_stride = a->row_stride, gemm->b_stride = b->row_stride;
    gemm->c_stride = at_least(gemm->rows == 1 ? 0 : c->row_stride, gemm->columns);
    gemm->a_batch = a->batch_stride, gemm->b_batch = b->batch_stride;
    gemm->c_batch = c->batch_stride;
}

static bool sums_operand(const struct cuda_matmul *p)
{
    return p->epilogue == GEMM_SUM_A || p->epilogue == GEMM_SUM_B;
}

// What cannot be read is packed first, and what cannot be written is made dense and moved behind.
static const char *multiply(const struct multiply *by)
{
    const struct cuda_matmul *p = by->product;
    struct cuda_gemm gemm = gemm_of(p);
    struct matrix a, b, c = p->c;
    bool fits = c.reals.number == NUMBER_FP32 || c.reals.number == by->number;
    bool is_direct = fits && is_plain(&c, p->rows, p->columns);
    bool is_written = p->beta == 0 && c.reals.number == by->number;
    bool is_one = is_direct && p->batch == 1 && (sums_operand(p) || is_written);
    if (p->epilogue != GEMM_PLAIN && !is_one) return "an epilogue of another GEMM";
    if (p->addend.data && (!is_direct || p->addend.number != c.reals.number))
        return "a sum that no GEMM is added to";
    gemm.addend = p->addend;
    gemm.epilogue = p->epilogue, gemm.bias = p->bias;
    gemm.aux = p->aux, gemm.aux_stride = p->aux_stride;
    if (!is_direct) {
        int64_t bytes = p->batch * p->rows * p->columns * number_bytes(NUMBER_FP32);
        void *room = cuda_scratch(by->device, by->stream, SCRATCH_C, bytes);
        if (!room) return CUDA_NO_MEMORY;
        c = dense(room, NUMBER_FP32, p->rows, p->columns);
        gemm.beta = 0;  // the move adds
    }
    if (!operand(by, SCRATCH_A, p->a, p->rows, p->inner, &gemm.is_a_turned, &a) ||
        !operand(by, SCRATCH_B, p->b, p->inner, p->columns, &gemm.is_b_turned, &b)) {
        return CUDA_NO_MEMORY;
    }
    place(&gemm, &a, &b, &c);
    const char *fault = gemm_run(by->device, by->stream, &gemm);
    if (fault || is_direct) return fault;
    struct terms_args args = copy_of(p, p->c, c, p->rows, p->columns);
    args.adds = p->beta != 0;
    kernel_terms(by->device->streams[by->stream], &args);
    return NULL;
}

// A C whose rows lie far apart is the GEMM of the turned matrices in the other order.
static struct cuda_matmul in_order(const struct cuda_matmul *p)
{
    struct matrix other = turned(p->c);
    struct cuda_matmul order = *p;
    if (is_plain(&p->c, p->rows, p->columns) || !is_plain(&other, p->columns, p->rows))
        return order;
    order.rows = p->columns, order.columns = p->rows;
    order.a = turned(p->b), order.b = turned(p->a), order.c = other;
    order.low_precision[0] = p->low_precision[1], order.low_precision[1] = p->low_precision[0];
    order.factors[0] = p->factors[1], order.factors[1] = p->factors[0];
    order.weight_casts[0] = p->weight_casts[1], order.weight_casts[1] = p->weight_casts[0];
    if (sums_operand(p)) order.epilogue = p->epilogue == GEMM_SUM_A ? GEMM_SUM_B : GEMM_SUM_A;
    assert(is_plain(&order.c, order.rows, order.columns));
    return order;
}

// Operands of two precisions meet in the wider one.
const char *cuda_multiply(struct cuda_device *device, enum stream stream,
                          const struct cuda_matmul *p)
{
    struct cuda_matmul order = in_order(p);
    if (order.low_precision[0] && cuda_can_lower_precision(&order))
        return cuda_multiply_low_precision(device, stream, &order);
    bool has_casts =
        order.factors[0] || order.factors[1] || order.weight_casts[0] || order.weight_casts[1];
    if (has_casts) return "operands in 8 bits of a GEMM that is not";
    int a = p->a.reals.number, b = p->b.reals.number;
    struct multiply by = {device, stream, &order, a == b ? a : NUMBER_FP32};
    return multiply(&by);
}

// Takes the largest loop out of the loops.
static struct axis_of take_batch(struct axes *loops)
{
    int best = -1;
    for (int i = 0; i < loops->count; i++) {
        if (best < 0 || loops->axis[i].size > loops->axis[best].size) best = i;
    }
    if (best < 0) return (struct axis_of){1, 0, 0, 0};
    struct axis_of batch = loops->axis[best];
    loops->axis[best] = loops->axis[--loops->count];
    return batch;
}

// What an operand is cast to; 0: it stays as it is.
static int low_precision_of(const struct run *run, int input)
{
    if (!run->device->is_low_precision || !run->call->is_linear) return 0;
    return run->call->gradients >> input & 1 ? NUMBER_E5M2 : NUMBER_E4M3;
}

// What is in 8 bits already, with what is summed last.
static struct matrix cast_of(const struct run *run, int input, int64_t inner)
{
    struct reals bytes = {run->call->inputs[input].data, low_precision_of(run, input)};
    return (struct matrix){bytes, inner, 1, 0};
}

static const struct kernel_weight_cast *weight_cast_of(const struct run *run, int input)
{
    const struct kernel_weight_cast *of = &run->call->weight_cast;
    return of->rows && of->input == input && low_precision_of(run, input) ? of : NULL;
}

static struct cuda_matmul product_of(const struct run *run, const struct einsum *e,
                                     struct axis_of batch, struct contraction_place place)
{
    return (struct cuda_matmul){
        .rows = e->row.size,
        .columns = e->column.size,
        .inner = e->sum.size,
        .batch = batch.size,
        .alpha = run->call->op->scalar,
        .beta = call_adds(run->call, 0) || run->addend.data ? 1 : 0,
        .addend = run->addend.data ? reals_at(run->addend, place.c) : run->addend,
        .low_precision = {low_precision_of(run, 0), low_precision_of(run, 1)},
        .factors = {run->call->factors[0], run->call->factors[1]},
        .weight_casts = {weight_cast_of(run, 0), weight_cast_of(run, 1)},
        .a = run->call->factors[0] ? cast_of(run, 0, e->sum.size)
                                   : (struct matrix){reals_at(run_input(run, 0), place.a), e->row.a,
                                                     e->sum.a, batch.a},
        .b = run->call->factors[1] ? turned(cast_of(run, 1, e->sum.size))
                                   : (struct matrix){reals_at(run_input(run, 1), place.b), e->sum.b,
                                                     e->column.b, batch.b},
        .c = {reals_at(run_output(run, 0), place.c), e->row.c, e->column.c, batch.c}};
}

bool cuda_single_gemm(const struct run *run, struct cuda_gemm *gemm)
{
    struct einsum e = einsum_of(run->call);
    struct matrix a, b;
    if (e.loops.count > 0 || e.inner_loops.count > 0) return false;
    struct cuda_matmul all =
        product_of(run, &e, (struct axis_of){1, 0, 0, 0}, (struct contraction_place){0, 0, 0});
    struct cuda_matmul p = in_order(&all);
    bool is_direct = !p.low_precision[0] && p.a.reals.number == p.b.reals.number &&
                     (p.c.reals.number == NUMBER_FP32 || p.c.reals.number == p.a.reals.number) &&
                     is_plain(&p.c, p.rows, p.columns);
    *gemm = gemm_of(&p);
    if (!is_direct || !is_readable(p.a, p.rows, p.inner, &gemm->is_a_turned, &a) ||
        !is_readable(p.b, p.inner, p.columns, &gemm->is_b_turned, &b)) {
        return false;
    }
    place(gemm, &a, &b, &p.c);
    return true;
}

// One GEMM for each step of what is summed in loops: the first writes, the others add.
static const char *sum_products(const struct run *run, const struct einsum *e, struct axis_of batch,
                                struct contraction_place place)
{
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    bool is_first = true;
    do {
        struct cuda_matmul product = product_of(run, e, batch, place);
        if (!is_first) product.beta = 1, product.addend.data = NULL;
        const char *fault = cuda_multiply(run->device, run->stream, &product);
        if (fault) return fault;
        is_first = false;
    } while (einsum_next(&e->inner_loops, index, &place));
    return NULL;
}

// Casts for others, and goes on with that where it is what this product reads.
static const char *cast_first(const struct run *run, struct kernel_call *own)
{
    void *rows = NULL;
    int input = run->call->cast_input;
    *own = *run->call;
    own->cast_to = NULL;
    struct kernel_array *read = &own->inputs[input];
    const char *fault = cuda_cast_both(run, low_precision_of(run, input), &rows);
    bool is_it = read->data == own->cast_from.data &&
                 array_elements(read) == array_elements(&own->cast_from);
    if (fault || !is_it) return fault;
    own->factors[input] = run->call->cast_to;
    read->data = rows;
    return NULL;
}

const char *cuda_contract(const struct run *run)
{
    const struct kernel_call *call = run->call;
    if (call->cast_to) {
        struct kernel_call own;
        struct run again = *run;
        again.call = &own;
        const char *refused = cast_first(run, &own);
        return refused ? refused : cuda_contract(&again);
    }
    if (array_elements(&call->outputs[0]) == 0) return NULL;
    if (array_elements(&call->inputs[0]) == 0 || array_elements(&call->inputs[1]) == 0)
        return cuda_begin_sum(run->device, run->stream, call, 0);
    struct einsum e = einsum_of(call);
    int64_t largest = at_least(at_least(e.row.size, e.column.size), e.sum.size);
    if (largest > INT_MAX) return "a matrix of more than 2^31 rows";
    if (call->weight_cast.rows && e.loops.count + e.inner_loops.count > 0)
        return "a weight in 8 bits of several products";
    struct axis_of batch = take_batch(&e.loops);
    struct contraction_place place = {0, 0, 0};
    int64_t index[2 * TENSOR_RANK_MAX] = {0};
    const char *fault = NULL;
    do {
        fault = sum_products(run, &e, batch, place);
    } while (!fault && einsum_next(&e.loops, index, &place));
    return fault;
}

const char *cuda_contract_to(const struct run *run, const struct cuda_matmul *end)
{
    struct einsum e = einsum_of(run->call);
    int64_t largest = at_least(at_least(e.row.size, e.column.size), e.sum.size);
    if (largest > INT_MAX) return "a matrix of more than 2^31 rows";
    if (run->device->is_low_precision && run->call->is_linear) return "8 bits have no epilogue";
    assert(e.loops.count == 0 && e.inner_loops.count == 0 && "an epilogue is of one GEMM");
    struct cuda_matmul product = *end;
    product.rows = e.row.size, product.columns = e.column.size;
    product.inner = e.sum.size, product.batch = 1;
    product.alpha = run->call->op->scalar;
    product.a = (struct matrix){run_input(run, 0), e.row.a, e.sum.a, 0};
    product.b = (struct matrix){run_input(run, 1), e.sum.b, e.column.b, 0};
    product.c = (struct matrix){end->c.reals, e.row.c, e.column.c, 0};
    return cuda_multiply(run->device, run->stream, &product);
}
