#include "executor/cuda/device_code.h"

// Rows of a table by id, and their gradients back into it in the order of the tokens.

KERNEL(gather, struct lookup_args, a)
{
    for (int64_t token = blockIdx.x; token < a.count; token += gridDim.x) {
        int64_t id = a.ids[token], at = id - a.first;
        bool is_here = at >= 0 && at < a.held;
        if ((id < 0 || id >= a.whole) && threadIdx.x == 0) *a.fault = 1;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float v[CHUNK] = {0}, sum[CHUNK] = {0};
            if (is_here) load_chunk(a.table, at * a.width + i, n, v);
            if (a.adds) load_chunk(a.rows, token * a.width + i, n, sum);
            for (int j = 0; j < CHUNK; j++)
                v[j] += sum[j];
            store_chunk(a.rows, token * a.width + i, n, v);
        }
    }
}

void kernel_gather(struct CUstream_st *stream, const struct lookup_args *args)
{
    LAUNCH(gather, *args, blocks_for(args->count, 1), THREADS, stream);
}

// Tokens of one id are a list: the first begins it. A warp a token looks back and ahead.
BLOCK_KERNEL(link_tokens, struct lookup_args, a)
{
    int64_t warps = INDICES / 32;
    int lane = (int)(threadIdx.x % 32);
    for (int64_t token = INDEX / 32; token < a.count; token += warps) {
        int64_t id = a.ids[token], next = a.count, begin = token + 1;
        int before = 0;
        for (int64_t i = lane; i < token && !before; i += 32)
            before = a.ids[i] == id;
        for (int64_t i = begin + lane; i < a.count; i += 32) {
            if (a.ids[i] != id) continue;
            next = i;
            break;
        }
        // The least of the lanes; a double holds every count of tokens.
        int64_t least = next;
        for (int mask = 16; mask > 0; mask /= 2) {
            double other = __shfl_xor_sync(0xFFFFFFFFu, (double)least, mask);
            float seen = __shfl_xor_sync(0xFFFFFFFFu, (float)before, mask);
            least = (int64_t)other < least ? (int64_t)other : least;
            before = before || seen > 0;
        }
        if (lane > 0) continue;
        a.next[token] = least < a.count ? least : -1;
        a.next[a.count + token] = !before;
    }
}

KERNEL(gather_back, struct lookup_args, a)
{
    for (int64_t token = blockIdx.x; token < a.count; token += gridDim.x) {
        int64_t at = a.ids[token] - a.first;
        if (!a.next[a.count + token] || at < 0 || at >= a.held) continue;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float sum[CHUNK], v[CHUNK];
            load_chunk(a.table, at * a.width + i, n, sum);
            for (int64_t t = token; t >= 0; t = a.next[t]) {
                load_chunk(a.rows, t * a.width + i, n, v);
                for (int j = 0; j < CHUNK; j++)
                    sum[j] += v[j];
            }
            store_chunk(a.table, at * a.width + i, n, sum);
        }
    }
}

// Adds to the table: who wants no sum clears it first.
void kernel_gather_backward(struct CUstream_st *stream, const struct lookup_args *args)
{
    LAUNCH(link_tokens, *args, blocks_for(args->count, THREADS / 32), THREADS, stream);
    LAUNCH(gather_back, *args, blocks_for(args->count, 1), THREADS, stream);
}
