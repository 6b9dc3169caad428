#include "executor/cuda/device_code.h"

// Operands of GEMMs in 8 bits: the largest magnitude, the factor that follows from it, and the
// cast. Bound by memory: an operand is read twice and a byte written for each number.

enum { TILE = 32 };

struct largest_args {
    struct low_precision_args of;
    int64_t blocks;
};

DEVICE int64_t place_of(const struct low_precision_args *a, int64_t i)
{
    // Neighbouring threads read neighbours, whichever way the matrix lies.
    if (a->row_stride == 1) return i % a->rows + i / a->rows * a->column_stride;
    return i / a->columns * a->row_stride + i % a->columns * a->column_stride;
}

BLOCK_KERNEL(largest, struct largest_args, a)
{
    float most = 0;
    for (int64_t i = INDEX; i < a.of.rows * a.of.columns; i += INDICES)
        most = fmaxf(most, fabsf(load(a.of.x, place_of(&a.of, i))));
    most = block_max(most);
    if (threadIdx.x == 0) a.of.partial[blockIdx.x] = most;
}

// What is all zeros has the factor 1; what has no largest number (an infinity) makes the result
// none either.
BLOCK_KERNEL(factor_of_largest, struct largest_args, a)
{
    float most = 0;
    for (int64_t i = threadIdx.x; i < a.blocks; i += blockDim.x)
        most = fmaxf(most, a.of.partial[i]);
    most = block_max(most);
    if (threadIdx.x == 0) a.of.factor[0] = most > 0 ? most / byte_largest(a.of.number) : 1;
}

BLOCK_KERNEL(cast_tiles, struct low_precision_args, a)
{
    __shared__ float tile[TILE * (TILE + 1)];
    int64_t across = (a.columns + TILE - 1) / TILE;
    int64_t tiles = (a.rows + TILE - 1) / TILE * across;
    float factor = a.factor[0];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t row = t / across * TILE, column = t % across * TILE;
        for (unsigned k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
            bool is_turned = a.row_stride == 1;
            unsigned r = is_turned ? k % TILE : k / TILE, c = is_turned ? k / TILE : k % TILE;
            bool is_there = row + r < a.rows && column + c < a.columns;
            int64_t at = (row + r) * a.row_stride + (column + c) * a.column_stride;
            tile[r * (TILE + 1) + c] = is_there ? load(a.x, at) / factor : 0;
        }
        __syncthreads();
        for (unsigned k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
            unsigned r = k / TILE, c = k % TILE;
            if (row + r >= a.rows || column + c >= a.columns) continue;
            a.out[(row + r) * a.columns + column + c] =
                float_byte(a.number, tile[r * (TILE + 1) + c]);
        }
        __syncthreads();
    }
}

void kernel_low_precision(struct CUstream_st *stream, const struct low_precision_args *args)
{
    int64_t count = args->rows * args->columns, blocks = blocks_for(count, THREADS);
    struct largest_args largest_of = {*args, blocks < LOW_PRECISION_BLOCKS ? blocks
                                                                           : LOW_PRECISION_BLOCKS};
    LAUNCH(largest, largest_of, largest_of.blocks, THREADS, stream);
    LAUNCH(factor_of_largest, largest_of, 1, THREADS, stream);
    LAUNCH(cast_tiles, *args, blocks_for(count, TILE * TILE), THREADS, stream);
}
