#include "executor/cuda/device_code.h"

// From tokens to the rows of the experts they chose, and back. Sums over a token's rows go by
// expert.

DEVICE bool chose(const struct rows_args *a, int64_t token, int64_t expert)
{
    return load(a->weights, token * a->gates + a->first_expert + expert) != 0;
}

DEVICE int64_t expert_of(const struct rows_args *a, int64_t row)
{
    int64_t expert = 0;
    while (row >= a->rows_of[expert + 1])
        expert++;
    return expert;
}

KERNEL(clear_index, struct rows_args, a)
{
    for (int64_t i = INDEX; i < a.tokens * a.experts; i += INDICES)
        a.row_of[i] = -1;
}
KERNEL(index_rows, struct rows_args, a)
{
    for (int64_t row = INDEX; row < a.row_count; row += INDICES)
        a.row_of[a.token_of[row] * a.experts + expert_of(&a, row)] = row;
}
KERNEL(index_dense, struct rows_args, a)
{
    for (int64_t i = INDEX; i < a.tokens * a.experts; i += INDICES)
        a.row_of[i] = chose(&a, i / a.experts, i % a.experts) ? i : -1;
}

void kernel_index_rows(struct CUstream_st *stream, const struct rows_args *args)
{
    int64_t all = args->tokens * args->experts;
    if (!args->rows_of) {
        LAUNCH(index_dense, *args, blocks_for(all, THREADS), THREADS, stream);
        return;
    }
    LAUNCH(clear_index, *args, blocks_for(all, THREADS), THREADS, stream);
    LAUNCH(index_rows, *args, blocks_for(args->row_count, THREADS), THREADS, stream);
}

DEVICE void add_chunk(struct reals x, int64_t at, int n, float factor, float *sum)
{
    float v[CHUNK];
    load_chunk(x, at, n, v);
    for (int j = 0; j < CHUNK; j++)
        sum[j] += factor * v[j];
}

KERNEL(dispatch, struct rows_args, a)
{
    int64_t count = a.rows_of ? a.row_count : a.tokens * a.experts;
    for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
        int64_t token = a.rows_of ? a.token_of[row] : row / a.experts;
        bool exists = a.rows_of || chose(&a, token, row % a.experts);
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float sum[CHUNK] = {0};
            if (a.adds) add_chunk(a.rows, row * a.width + i, n, 1, sum);
            if (exists) add_chunk(a.x, token * a.width + i, n, 1, sum);
            store_chunk(a.rows, row * a.width + i, n, sum);
        }
    }
}

void kernel_dispatch(struct CUstream_st *stream, const struct rows_args *args)
{
    int64_t count = args->rows_of ? args->row_count : args->tokens * args->experts;
    if (count > 0) LAUNCH(dispatch, *args, blocks_for(count, 1), THREADS, stream);
}

struct combine_args {
    struct rows_args rows;
    bool weighted;
};
KERNEL(combine, struct combine_args, c)
{
    struct rows_args a = c.rows;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float sum[CHUNK] = {0};
            if (a.adds) add_chunk(a.x, token * a.width + i, n, 1, sum);
            for (int64_t e = 0; e < a.experts; e++) {
                int64_t row = a.row_of[token * a.experts + e];
                if (row < 0) continue;
                float weight = load(a.weights, token * a.gates + a.first_expert + e);
                add_chunk(a.rows, row * a.width + i, n, c.weighted ? weight : 1, sum);
            }
            store_chunk(a.x, token * a.width + i, n, sum);
        }
    }
}

void kernel_combine(struct CUstream_st *stream, const struct rows_args *args, bool weighted)
{
    struct combine_args combine_args = {*args, weighted};
    LAUNCH(combine, combine_args, blocks_for(args->tokens, 1), THREADS, stream);
}

// x: gradients of the sums; d: those of the rows; a row's own dot GEMM is its weight's gradient.
BLOCK_KERNEL(combine_back, struct rows_args, a)
{
    int64_t count = a.rows_of ? a.row_count : a.tokens * a.experts;
    for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
        int64_t token = a.rows_of ? a.token_of[row] : row / a.experts;
        int64_t expert = a.rows_of ? expert_of(&a, row) : row % a.experts;
        int64_t gate = token * a.gates + a.first_expert + expert;
        float weight = load(a.weights, gate), dot = 0;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float d[CHUNK], x[CHUNK], sum[CHUNK] = {0};
            load_chunk(a.x, token * a.width + i, n, d);
            load_chunk(a.rows, row * a.width + i, n, x);
            if (a.adds) load_chunk(a.d, row * a.width + i, n, sum);
            for (int j = 0; j < CHUNK; j++) {
                dot += j < n ? d[j] * x[j] : 0;
                sum[j] += weight * d[j];
            }
            store_chunk(a.d, row * a.width + i, n, sum);
        }
        dot = block_sum(dot);
        bool exists = a.rows_of || weight != 0;
        if (threadIdx.x == 0 && exists) store_sum(a.d_weights, gate, true, dot);
    }
}

// Adds to the gradients of the weights: who wants no sum clears them first.
void kernel_combine_backward(struct CUstream_st *stream, const struct rows_args *args)
{
    int64_t count = args->rows_of ? args->row_count : args->tokens * args->experts;
    if (count > 0) LAUNCH(combine_back, *args, blocks_for(count, 1), THREADS, stream);
}

KERNEL(write_addresses, struct addresses_args, a)
{
    for (int64_t i = INDEX; i < (int64_t)3 * a.count; i += INDICES) {
        int64_t k = i / a.count, at = i % a.count;
        a.table[k * a.whole + a.first + at] = a.at[k][at];
    }
}

void kernel_addresses(struct CUstream_st *stream, const struct addresses_args *args)
{
    int64_t all = (int64_t)3 * args->count;
    LAUNCH(write_addresses, *args, blocks_for(all, THREADS), THREADS, stream);
}
