#include "executor/cuda/device_code.h"

// Losses, a block a row: softmax cross entropy over the vocabulary, in the parts of
// executor/cpu/loss.c, and sums over columns.
// What is known so far stands in the log-sum-exp: first the largest logit, then what it will be.

// Of logits in 16 bits CUDA's fast exponential leaves what they have of digits.
DEVICE float exp_of(struct reals logits, float x)
{
#if defined(__CUDACC__)
    return logits.number == NUMBER_FP32 ? expf(x) : __expf(x);
#else
    (void)logits;
    return expf(x);
#endif
}

DEVICE float largest_logit(const struct loss_args *a, int64_t row)
{
    float most = -INFINITY, v[CHUNK];
    for (int64_t i = threadIdx.x * CHUNK; i < a->real; i += blockDim.x * CHUNK) {
        int n = chunk_of(i, a->real);
        load_chunk(a->logits, row * a->count + i, n, v);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            most = j < n ? fmaxf(most, v[j]) : most;
    }
    return block_max(most);
}

DEVICE float sum_of_exponentials(const struct loss_args *a, int64_t row, float most)
{
    float sum = 0, v[CHUNK];
    for (int64_t i = threadIdx.x * CHUNK; i < a->real; i += blockDim.x * CHUNK) {
        int n = chunk_of(i, a->real);
        load_chunk(a->logits, row * a->count + i, n, v);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            sum += j < n ? exp_of(a->logits, v[j] - most) : 0;
    }
    return block_sum(sum);
}

DEVICE float label_logit(const struct loss_args *a, int64_t row)
{
    int64_t at = a->labels[row] - a->first;
    return at >= 0 && at < a->real ? load(a->logits, row * a->count + at) : 0;
}

// Both in one pass: what a thread has added is scaled when it meets a larger logit (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax").
DEVICE float largest_and_sum(const struct loss_args *a, int64_t row, float *sum)
{
    float most = -INFINITY, own = 0, v[CHUNK];
    for (int64_t i = threadIdx.x * CHUNK; i < a->real; i += blockDim.x * CHUNK) {
        int n = chunk_of(i, a->real);
        float larger = most;
        load_chunk(a->logits, row * a->count + i, n, v);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            larger = j < n ? fmaxf(larger, v[j]) : larger;
        if (larger > most) own *= exp_of(a->logits, most - larger), most = larger;
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            own += j < n ? exp_of(a->logits, v[j] - most) : 0;
    }
    float largest = block_max(most);
    *sum = block_sum(most > -INFINITY ? own * exp_of(a->logits, most - largest) : 0);
    return largest;
}

DEVICE void whole_row(const struct loss_args *a, int64_t row)
{
    float sum, most = largest_and_sum(a, row, &sum);
    if (threadIdx.x > 0) return;
    float lse = most + logf(sum), value = lse - label_logit(a, row);
    store_sum(a->lse, row, a->adds_lse, lse);
    store_sum(a->value, row, a->adds_value, a->labels[row] < 0 ? 0 : value);
}

DEVICE void part_of_row(const struct loss_args *a, int64_t row)
{
    float x = 0;
    if (a->part == 1) x = largest_logit(a, row);
    if (a->part == 3) x = sum_of_exponentials(a, row, load(a->lse, row));
    if (threadIdx.x > 0) return;
    switch (a->part) {
    case 1:
    case 3:
        store(a->inner, row, x);
        break;
    case 2:
        store(a->lse, row, load(a->inner, row));
        break;
    case 4:
        store(a->lse, row, load(a->lse, row) + logf(load(a->inner, row)));
        break;
    case 5:
        store(a->inner, row, label_logit(a, row));
        break;
    default:
        x = load(a->lse, row) - load(a->inner, row);
        store(a->value, row, a->labels[row] < 0 ? 0 : x);
    }
}

// What a column adds to the loss of its row, before that is divided, and the slope of that.
DEVICE float column_loss(const struct loss_args *a, float x, float target, bool is_label)
{
    if (a->kind == LOSS_SQUARED_ERROR) return (x - target) * (x - target);
    return softplus_of(x) - (is_label ? x : 0);
}
DEVICE float column_slope(const struct loss_args *a, float x, float target, bool is_label)
{
    if (a->kind == LOSS_SQUARED_ERROR) return 2 * (x - target);
    return sigmoid_of(x) - (is_label ? 1.0f : 0);
}
DEVICE float divisor(const struct loss_args *a)
{
    return a->kind == LOSS_SQUARED_ERROR ? (float)a->count : 1;
}

// Losses that are sums over columns, which are all here.
ROW_KERNEL(columns_loss, struct loss_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        int64_t label = a.labels ? a.labels[row] : -1;
        float sum = 0, v[CHUNK], target[CHUNK] = {0};
        for (int64_t i = threadIdx.x * CHUNK; i < a.count; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.count);
            load_chunk(a.logits, row * a.count + i, n, v);
            if (a.target.data) load_chunk(a.target, row * a.count + i, n, target);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                sum += j < n ? column_loss(&a, v[j], target[j], i + j == label) : 0;
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) store_sum(a.value, row, a.adds_value, sum / divisor(&a));
    }
}

ROW_KERNEL(columns_loss_back, struct loss_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        int64_t label = a.labels ? a.labels[row] : -1;
        float d = load(a.d, row) / divisor(&a), v[CHUNK], target[CHUNK] = {0};
        for (int64_t i = threadIdx.x * CHUNK; i < a.count; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.count);
            float sum[CHUNK] = {0};
            load_chunk(a.logits, row * a.count + i, n, v);
            if (a.target.data) load_chunk(a.target, row * a.count + i, n, target);
            if (a.adds) load_chunk(a.d_logits, row * a.count + i, n, sum);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                sum[j] += d * column_slope(&a, v[j], target[j], i + j == label);
            store_chunk(a.d_logits, row * a.count + i, n, sum);
        }
    }
}

// Whole warps of threads that a row has chunks for.
static int row_threads(int64_t count)
{
    int64_t warps = (count + 32 * CHUNK - 1) / (32 * CHUNK), most = 2 * THREADS / 32;
    return (int)(32 * (warps < 1 ? 1 : warps < most ? warps : most));
}

ROW_KERNEL(loss, struct loss_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        if (a.part == 0) {
            whole_row(&a, row);
        } else {
            part_of_row(&a, row);
        }
    }
}

void kernel_loss(struct CUstream_st *stream, const struct loss_args *args)
{
    if (args->kind == LOSS_SOFTMAX) {
        LAUNCH(loss, *args, blocks_for(args->rows, 1), 2 * THREADS, stream);
    } else {
        LAUNCH(columns_loss, *args, blocks_for(args->rows, 1), row_threads(args->count), stream);
    }
}

ROW_KERNEL(loss_chunk, struct loss_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float sum, most = largest_and_sum(&a, row, &sum);
        if (threadIdx.x > 0) continue;
        int64_t label = a.labels[row] - a.first;
        float before = a.adds_value ? load(a.value, row) : -INFINITY;
        float own = a.real > 0 ? most + logf(sum) : -INFINITY, larger = fmaxf(own, before);
        bool is_here = label >= 0 && label < a.real;
        if (a.real > 0 && before > -INFINITY)
            own = larger + logf(expf(own - larger) + expf(before - larger));
        store(a.value, row, a.real > 0 ? own : before);
        if (is_here || !a.adds_value) store(a.lse, row, label_logit(&a, row));
    }
}

void kernel_loss_chunk(struct CUstream_st *stream, const struct loss_args *args)
{
    LAUNCH(loss_chunk, *args, blocks_for(args->rows, 1), 2 * THREADS, stream);
}

KERNEL(loss_join, struct loss_args, a)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < a.rows; row += step) {
        float value = load(a.value, row);
        if (a.part == 1) store(a.inner, row, value);
        if (a.part == 3) store(a.inner, row, expf(value - load(a.lse, row)));
        if (a.part > 0) continue;
        float label = load(a.lse, row);
        store(a.lse, row, value);
        store(a.value, row, a.labels[row] < 0 ? 0 : value - label);
    }
}

void kernel_loss_join(struct CUstream_st *stream, const struct loss_args *args)
{
    LAUNCH(loss_join, *args, blocks_for(args->rows, THREADS), THREADS, stream);
}

ROW_KERNEL(label_score, struct label_score_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        int64_t column = a.labels[row] - a.first;
        float sum = 0;
        bool is_here = column >= 0 && column < a.real;
        for (int64_t i = threadIdx.x; is_here && i < a.depth; i += blockDim.x)
            sum += load(a.x, row * a.x_stride + i) *
                   load(a.weight, column * a.column_stride + i * a.row_stride);
        sum = block_sum(sum);
        if (threadIdx.x == 0) store(a.scores, row, a.factor * sum);
    }
}

void kernel_label_score(struct CUstream_st *stream, const struct label_score_args *args)
{
    LAUNCH(label_score, *args, blocks_for(args->rows, 1), row_threads(args->depth), stream);
}

ROW_KERNEL(loss_back, struct loss_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        int64_t label = a.labels[row] - a.first;
        float gradient = a.labels[row] < 0 ? 0 : load(a.d, row), lse = load(a.lse, row);
        for (int64_t i = threadIdx.x * CHUNK; i < a.count; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.count);
            float v[CHUNK], sum[CHUNK] = {0};
            load_chunk(a.logits, row * a.count + i, n, v);
            if (a.adds) load_chunk(a.d_logits, row * a.count + i, n, sum);
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                float p = i + j < a.real ? gradient * exp_of(a.logits, v[j] - lse) : 0;
                sum[j] += i + j == label && label < a.real ? p - gradient : p;
            }
            store_chunk(a.d_logits, row * a.count + i, n, sum);
        }
    }
}

void kernel_loss_backward(struct CUstream_st *stream, const struct loss_args *args)
{
    if (args->kind == LOSS_SOFTMAX) {
        LAUNCH(loss_back, *args, blocks_for(args->rows, 1), 2 * THREADS, stream);
    } else {
        LAUNCH(columns_loss_back, *args, blocks_for(args->rows, 1), row_threads(args->count),
               stream);
    }
}
