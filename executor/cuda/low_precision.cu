#include "executor/cuda/device_code.h"

// Operands of GEMMs in 8 bits: the largest magnitude of each part, then the factor that follows
// from them and the cast. Bound by memory: an operand is read twice, 16 bytes at a time, and a byte
// written for each number, or two where it is cast both ways, 8 at a time; no thread divides by
// more than a tile.

enum { TILE = 64, TILE_CHUNKS = TILE / CHUNK, LINE = 8192 };

// A matrix as lines whose elements are `step` apart: its rows, or its columns where those are
// neighbours. What is dense is cut into lines that keep a block busy.
struct line_args {
    struct low_precision_args of;
    int64_t count, length, stride, step;
    int64_t all;  // elements; of the last line fewer are left where it is dense
};

static struct line_args lines_of(const struct low_precision_args *of)
{
    bool is_turned = of->row_stride == 1 && of->column_stride != 1;
    struct line_args lines = {*of, of->rows, of->columns, of->row_stride, of->column_stride, 0};
    if (is_turned) {
        lines.count = of->columns, lines.length = of->rows;
        lines.stride = of->column_stride, lines.step = 1;
    }
    lines.all = lines.count * lines.length;
    if (lines.step == 1 && lines.stride == lines.length) {
        lines.count = (lines.all + LINE - 1) / LINE;
        lines.length = lines.stride = LINE;
    }
    return lines;
}

DEVICE int64_t end_of(const struct line_args *a, int64_t line)
{
    int64_t left = a->all - line * a->length;
    return left < a->length ? left : a->length;
}

DEVICE void load_line(struct reals x, int64_t at, int64_t step, int n, float *v)
{
    if (step == 1) {
        load_chunk(x, at, n, v);
        return;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        v[j] = j < n ? load(x, at + j * step) : 0;
}

DEVICE void store_bytes(uint8_t *out, int64_t at, int n, int number, const float *v)
{
    if (n == CHUNK && ((uintptr_t)(out + at) & 7) == 0) {
        uint64_t word = 0;
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            word |= (uint64_t)float_byte(number, v[j]) << 8 * j;
        *(uint64_t *)(out + at) = word;
        return;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        if (j < n) out[at + j] = float_byte(number, v[j]);
    }
}

DEVICE void largest(const struct line_args *a)
{
    float most = 0, v[CHUNK];
    for (int64_t line = blockIdx.x; line < a->count; line += gridDim.x) {
        int64_t end = end_of(a, line);
        for (int64_t i = threadIdx.x * CHUNK; i < end; i += blockDim.x * CHUNK) {
            load_line(a->of.x, line * a->stride + i * a->step, a->step, chunk_of(i, end), v);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                most = fmaxf(most, fabsf(v[j]));
        }
    }
    most = block_max(most);
    if (threadIdx.x == 0) a->of.partial[blockIdx.x] = most;
}

// What is all zeros has the factor 1; what has no largest number (an infinity) makes the result
// none either. Every block finds it, and the first one tells.
DEVICE float factor_of(const struct line_args *a)
{
    float most = 0;
    for (int64_t i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        most = fmaxf(most, a->of.partial[i]);
    most = block_max(most);
    float factor = most > 0 ? most / byte_largest(a->of.number) : 1;
    if (threadIdx.x == 0 && blockIdx.x == 0) a->of.factor[0] = factor;
    return factor;
}

// Rows of neighbours stay rows.
DEVICE void cast_lines_first(const struct line_args *a)
{
    largest(a);
}
DEVICE void cast_lines_second(const struct line_args *a)
{
    float inverse = 1 / factor_of(a), v[CHUNK];
    for (int64_t line = blockIdx.x; line < a->count; line += gridDim.x) {
        int64_t end = end_of(a, line);
        for (int64_t i = threadIdx.x * CHUNK; i < end; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, end);
            load_chunk(a->of.x, line * a->stride + i, n, v);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                v[j] *= inverse;
            store_bytes(a->of.out, line * a->length + i, n, a->of.number, v);
        }
    }
}
GRID_KERNEL(cast_lines, struct line_args)

// Columns become rows, of whatever strides.
DEVICE void cast_tiles_first(const struct line_args *a)
{
    largest(a);
}
DEVICE void cast_tiles_second(const struct line_args *a)
{
    __shared__ float tile[TILE * (TILE + 1)];
    const struct low_precision_args *of = &a->of;
    int64_t across = (of->columns + TILE - 1) / TILE;
    int64_t tiles = (of->rows + TILE - 1) / TILE * across;
    float inverse = 1 / factor_of(a), v[CHUNK];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t row = t / across * TILE, column = t % across * TILE;
        for (unsigned k = threadIdx.x; k < TILE * TILE_CHUNKS; k += blockDim.x) {
            unsigned c = k / TILE_CHUNKS, r = k % TILE_CHUNKS * CHUNK;
            if (row + r >= of->rows || column + c >= of->columns) continue;
            int64_t at = (row + r) * of->row_stride + (column + c) * of->column_stride;
            load_line(of->x, at, of->row_stride, chunk_of(row + r, of->rows), v);
            UNROLL
            for (unsigned j = 0; j < CHUNK; j++)
                tile[(r + j) * (TILE + 1) + c] = v[j] * inverse;
        }
        __syncthreads();
        for (unsigned k = threadIdx.x; k < TILE * TILE_CHUNKS; k += blockDim.x) {
            unsigned r = k / TILE_CHUNKS, c = k % TILE_CHUNKS * CHUNK;
            if (row + r >= of->rows || column + c >= of->columns) continue;
            int n = chunk_of(column + c, of->columns);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                v[j] = j < n ? tile[r * (TILE + 1) + c + j] : 0;
            store_bytes(of->out, (row + r) * of->columns + column + c, n, of->number, v);
        }
        __syncthreads();
    }
}
GRID_KERNEL(cast_tiles, struct line_args)

// Rows stay rows, and become columns as well.
DEVICE void cast_both_first(const struct line_args *a)
{
    largest(a);
}
DEVICE void cast_both_second(const struct line_args *a)
{
    __shared__ float tile[TILE * (TILE + 1)];
    const struct low_precision_args *of = &a->of;
    int64_t across = (of->columns + TILE - 1) / TILE;
    int64_t tiles = (of->rows + TILE - 1) / TILE * across;
    float inverse = 1 / factor_of(a), v[CHUNK];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t row = t / across * TILE, column = t % across * TILE;
        for (unsigned k = threadIdx.x; k < TILE * TILE_CHUNKS; k += blockDim.x) {
            unsigned r = k / TILE_CHUNKS, c = k % TILE_CHUNKS * CHUNK;
            if (row + r >= of->rows || column + c >= of->columns) continue;
            int n = chunk_of(column + c, of->columns);
            load_chunk(of->x, (row + r) * of->row_stride + column + c, n, v);
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                v[j] *= inverse;
                tile[r * (TILE + 1) + c + (unsigned)j] = v[j];
            }
            store_bytes(of->out, (row + r) * of->columns + column + c, n, of->number, v);
        }
        __syncthreads();
        for (unsigned k = threadIdx.x; k < TILE * TILE_CHUNKS; k += blockDim.x) {
            unsigned c = k / TILE_CHUNKS, r = k % TILE_CHUNKS * CHUNK;
            if (row + r >= of->rows || column + c >= of->columns) continue;
            int n = chunk_of(row + r, of->rows);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                v[j] = j < n ? tile[(r + (unsigned)j) * (TILE + 1) + c] : 0;
            store_bytes(of->turned, (column + c) * of->rows + row + r, n, of->number, v);
        }
        __syncthreads();
    }
}
GRID_KERNEL(cast_both, struct line_args)

void kernel_low_precision(struct CUstream_st *stream, const struct low_precision_args *args)
{
    struct line_args lines = lines_of(args);
    int64_t tiles = grid_blocks(blocks_for(args->rows * args->columns, TILE * TILE));
    if (args->turned) {
        LAUNCH_GRID(cast_both, lines, tiles, THREADS, stream);
    } else if (args->column_stride != 1) {
        LAUNCH_GRID(cast_tiles, lines, tiles, THREADS, stream);
    } else {
        LAUNCH_GRID(cast_lines, lines, grid_blocks(blocks_for(lines.count, 1)), THREADS, stream);
    }
}
