#include "executor/cuda/cuda.h"
#include "plan/lower/lower.h"

#include <assert.h>

// GEMMs in 8 bits with a factor for each operand, which follows from its largest number now
// (current scaling). Values and weights have 3 bits behind the point (E4M3), gradients a larger
// range (E5M2), as Micikevicius et al. (2022, "FP8 formats for deep learning") train. Both operands
// are written with the summed dim last, which Hopper's tensor cores want.

enum {
    LOW_PRECISION_GRAIN = 16,  // of the dims that cuBLASLt counts in 16 bytes
    FACTOR_FLOATS = 64         // of an operand's factor, which begins at 256 bytes as all it reads
};

struct low_precision {
    struct cuda_device *device;
    enum stream stream;
    const struct cuda_matmul *product;
    float *memory;  // partial results, then a factor for each operand
};

// A weight is a matrix as it lies, of which a product sums the columns or the rows: it reads the
// one copy or the other. The first product of a step makes both.
static const char *kept_cast(const struct low_precision *by, struct matrix m, int64_t columns,
                             int operand, struct reals *out, const float **factor)
{
    const struct cuda_matmul *product = by->product;
    const struct kernel_weight_cast *kept = product->weight_casts[operand];
    int64_t rows = operand ? product->columns : product->rows;
    bool is_turned = m.column_stride != 1;
    bool is_dense =
        is_turned ? m.row_stride == 1 && m.column_stride == rows : m.row_stride == columns;
    if (!is_dense) return "a weight in 8 bits that is no matrix";
    *out = (struct reals){is_turned ? kept->turned : kept->rows, product->low_precision[operand]};
    *factor = kept->factor;
    if (!kept->makes) return NULL;
    struct low_precision_args args = {.rows = is_turned ? columns : rows,
                                      .columns = is_turned ? rows : columns,
                                      .row_stride = is_turned ? rows : columns,
                                      .column_stride = 1,
                                      .number = out->number,
                                      .x = m.reals,
                                      .out = kept->rows,
                                      .turned = kept->turned,
                                      .partial = by->memory,
                                      .factor = kept->factor};
    kernel_low_precision(by->device->streams[by->stream], &args);
    return NULL;
}

// Of one operand, `columns` last. What is cast already stays so.
static const char *cast(const struct low_precision *by, struct matrix m, int64_t columns,
                        int operand, struct reals *out, const float **factor)
{
    const struct cuda_matmul *product = by->product;
    int64_t rows = operand ? product->columns : product->rows;
    if (product->weight_casts[operand]) return kept_cast(by, m, columns, operand, out, factor);
    *out = m.reals, *factor = product->factors[operand];
    if (*factor) return NULL;
    void *bytes =
        cuda_scratch(by->device, by->stream, operand ? SCRATCH_B : SCRATCH_A, rows * columns);
    if (!bytes) return CUDA_NO_MEMORY;
    float *made = by->memory + LOW_PRECISION_BLOCKS + (ptrdiff_t)operand * FACTOR_FLOATS;
    *out = (struct reals){bytes, product->low_precision[operand]};
    *factor = made;
    struct low_precision_args args = {.rows = rows,
                                      .columns = columns,
                                      .row_stride = m.row_stride,
                                      .column_stride = m.column_stride,
                                      .number = out->number,
                                      .x = m.reals,
                                      .out = bytes,
                                      .partial = by->memory,
                                      .factor = made};
    kernel_low_precision(by->device->streams[by->stream], &args);
    return NULL;
}

// Partial maxima of blocks, then a factor for each operand.
static float *room_for_factors(struct cuda_device *device, enum stream stream)
{
    int64_t bytes = (LOW_PRECISION_BLOCKS + 2 * FACTOR_FLOATS) * (int64_t)sizeof(float);
    return cuda_scratch(device, stream, SCRATCH_PARTIAL, bytes);
}

// Rows of (batch, seq), whose numbers lie one behind another.
const char *cuda_cast_both(const struct run *run, int number, void **rows)
{
    const struct kernel_array *from = &run->call->cast_from;
    int64_t count = from->sizes[0] * from->sizes[1], elements = array_elements(from);
    assert(count > 0 && elements % count == 0);
    int64_t columns = elements / count;
    float *memory = room_for_factors(run->device, run->stream);
    *rows = run_scratch(run, SCRATCH_CAST, elements);
    if (!memory || !*rows) return CUDA_NO_MEMORY;
    struct low_precision_args args = {.rows = count,
                                      .columns = columns,
                                      .row_stride = from->row_stride ? from->row_stride : columns,
                                      .column_stride = 1,
                                      .number = number,
                                      .x = reals_of(run->device, from),
                                      .out = *rows,
                                      .turned = (uint8_t *)run->call->cast_to + CAST_HEAD_BYTES,
                                      .partial = memory,
                                      .factor = run->call->cast_to};
    kernel_low_precision(run->on, &args);
    return cuda_fault(cudaGetLastError());
}

// What cuBLASLt demands of operands of 8 bits (its documentation, "FP8"): dims and rows of 16
// bytes, C in row-major order.
bool cuda_can_lower_precision(const struct cuda_matmul *p)
{
    bool is_plain = p->c.column_stride == 1 && p->c.row_stride >= p->columns;
    return p->batch == 1 && p->epilogue == GEMM_PLAIN && is_plain && p->rows > 0 && p->inner > 0 &&
           p->inner % LOW_PRECISION_GRAIN == 0 && p->columns % LOW_PRECISION_GRAIN == 0 &&
           p->c.row_stride % LOW_PRECISION_GRAIN == 0 && (uintptr_t)p->c.reals.data % 16 == 0 &&
           (uintptr_t)p->addend.data % 16 == 0;
}

const char *cuda_multiply_low_precision(struct cuda_device *device, enum stream stream,
                                        const struct cuda_matmul *p)
{
    assert(cuda_can_lower_precision(p));
    struct low_precision by = {device, stream, p, NULL};
    by.memory = room_for_factors(device, stream);
    struct cuda_gemm gemm = {.rows = p->rows,
                             .columns = p->columns,
                             .inner = p->inner,
                             .batch = 1,
                             .is_b_turned = true,
                             .c = p->c.reals,
                             .addend = p->addend,
                             .a_stride = p->inner,
                             .b_stride = p->inner,
                             .c_stride = p->c.row_stride,
                             .alpha = (float)p->alpha,
                             .beta = (float)p->beta};
    struct matrix b = p->b;
    int64_t turned = b.row_stride;
    b.row_stride = b.column_stride, b.column_stride = turned;
    const float *a_factor, *b_factor;
    const char *fault =
        by.memory ? cast(&by, p->a, p->inner, 0, &gemm.a, &a_factor) : CUDA_NO_MEMORY;
    if (!fault) fault = cast(&by, b, p->inner, 1, &gemm.b, &b_factor);
    if (fault) return fault;
    gemm.a_factor = a_factor, gemm.b_factor = b_factor;
    return gemm_run(device, stream, &gemm);
}
