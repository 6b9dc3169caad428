#include "executor/cuda/device_code.h"

// Softmax over keys where attention is not fused, a block a row. Keys that a query may not see have
// probability 0; a sink is one more score, whose probability is dropped.

DEVICE int64_t query_of(const struct softmax_args *a, int64_t row)
{
    return a->first_query + row / a->query_stride % a->queries;
}

BLOCK_KERNEL(softmax, struct softmax_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        struct keys seen = keys_seen(a.sight, query_of(&a, row), a.first_key, a.keys);
        float sink = -INFINITY, most, total = 0;
        if (a.sink.data) sink = load(a.sink, row / a.head_stride % a.heads);
        most = sink;
        for (int64_t i = seen.first + threadIdx.x; i < seen.end; i += blockDim.x)
            most = fmaxf(most, load(a.x, row * a.keys + i));
        most = block_max(most);
        for (int64_t i = seen.first + threadIdx.x; i < seen.end; i += blockDim.x)
            total += expf(load(a.x, row * a.keys + i) - most);
        total = block_sum(total);
        if (a.sink.data) total += expf(sink - most);
        for (int64_t i = threadIdx.x; i < a.keys; i += blockDim.x) {
            bool is_seen = i >= seen.first && i < seen.end;
            float x = is_seen ? expf(load(a.x, row * a.keys + i) - most) / total : 0;
            store(a.y, row * a.keys + i, x);
        }
    }
}

void kernel_softmax(struct CUstream_st *stream, const struct softmax_args *args)
{
    LAUNCH(softmax, *args, blocks_for(args->rows, 1), THREADS, stream);
}

BLOCK_KERNEL(softmax_back, struct softmax_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float dot = 0, sum = 0;
        for (int64_t i = threadIdx.x; i < a.keys; i += blockDim.x) {
            float p = load(a.y, row * a.keys + i);
            dot += load(a.d, row * a.keys + i) * p;
            sum += p;
        }
        dot = block_sum(dot);
        sum = block_sum(sum);
        for (int64_t i = threadIdx.x; i < a.keys; i += blockDim.x) {
            int64_t at = row * a.keys + i;
            store_sum(a.d_x, at, a.adds_x, load(a.y, at) * (load(a.d, at) - dot));
        }
        if (a.partial && threadIdx.x == 0) a.partial[row] = -(1 - sum) * dot;
    }
}

// A block a head: its rows in order of threads, and the threads in order.
BLOCK_KERNEL(softmax_sinks, struct softmax_args, a)
{
    int64_t head = blockIdx.x;
    float sum = 0;
    for (int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) {
        if (row / a.head_stride % a.heads == head) sum += a.partial[row];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store_sum(a.d_sink, head, a.adds_sink, sum);
}

void kernel_softmax_backward(struct CUstream_st *stream, const struct softmax_args *args)
{
    LAUNCH(softmax_back, *args, blocks_for(args->rows, 1), THREADS, stream);
    if (args->partial) LAUNCH(softmax_sinks, *args, args->heads, THREADS, stream);
}
