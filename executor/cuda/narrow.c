#include "executor/cuda/cuda.h"

// Products in 8 bits with a factor for each operand, which follows from its largest number now
// (current scaling). Values and weights have 3 bits behind the point (E4M3), gradients a larger
// range (E5M2), as Micikevicius et al. (2022, "FP8 formats for deep learning") train. Both operands
// are written with the summed dim last, which Hopper's tensor cores want.

enum { NARROW_GRAIN = 16 };  // of the dims that cuBLASLt counts in 16 bytes

struct narrow {
    struct cuda_device *device;
    enum stream stream;
    float *memory;  // partial results, then a factor for each operand
};

static bool cast(const struct narrow *by, struct matrix m, int64_t rows, int64_t columns,
                 int number, int operand, struct reals *out, float **factor)
{
    void *bytes =
        cuda_scratch(by->device, by->stream, operand ? SCRATCH_B : SCRATCH_A, rows * columns);
    if (!bytes) return false;
    *out = (struct reals){bytes, number};
    *factor = by->memory + NARROW_BLOCKS + operand;
    struct narrow_args args = {.rows = rows,
                               .columns = columns,
                               .row_stride = m.row_stride,
                               .column_stride = m.column_stride,
                               .number = number,
                               .x = m.reals,
                               .out = bytes,
                               .partial = by->memory,
                               .factor = *factor};
    kernel_narrow(by->device->streams[by->stream], &args);
    return true;
}

bool cuda_can_narrow(const struct cuda_product *p)
{
    bool is_plain = p->c.column_stride == 1 && p->c.row_stride >= p->columns;
    return p->batch == 1 && p->epilogue == GEMM_PLAIN && is_plain && p->rows > 0 && p->inner > 0 &&
           p->inner % NARROW_GRAIN == 0 && p->columns % NARROW_GRAIN == 0 &&
           p->c.row_stride % NARROW_GRAIN == 0 && (uintptr_t)p->c.reals.data % 16 == 0;
}

const char *cuda_multiply_narrow(struct cuda_device *device, enum stream stream,
                                 const struct cuda_product *p)
{
    struct narrow by = {device, stream, NULL};
    int64_t bytes = (NARROW_BLOCKS + 2) * (int64_t)sizeof(float);
    by.memory = cuda_scratch(device, stream, SCRATCH_PARTIAL, bytes);
    struct cuda_gemm gemm = {.rows = p->rows,
                             .columns = p->columns,
                             .inner = p->inner,
                             .batch = 1,
                             .is_b_turned = true,
                             .c = p->c.reals,
                             .a_stride = p->inner,
                             .b_stride = p->inner,
                             .c_stride = p->c.row_stride,
                             .alpha = (float)p->alpha,
                             .beta = (float)p->beta};
    struct matrix b = p->b;
    int64_t turned = b.row_stride;
    b.row_stride = b.column_stride, b.column_stride = turned;
    float *a_factor, *b_factor;
    if (!by.memory || !cast(&by, p->a, p->rows, p->inner, p->narrow[0], 0, &gemm.a, &a_factor) ||
        !cast(&by, b, p->columns, p->inner, p->narrow[1], 1, &gemm.b, &b_factor))
        return CUDA_NO_MEMORY;
    gemm.a_factor = a_factor, gemm.b_factor = b_factor;
    return gemm_run(device, stream, &gemm);
}
