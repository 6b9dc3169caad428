#include "executor/cuda/device_code.h"

// The choice of keys: a block has a query. Bound by memory: products of all its heads are read
// once; its scores, read some ten times, stay in caches.

// Numbers of scores in the order of their bits: what is no number is the least.
DEVICE uint32_t order_of(float x)
{
    union {
        float number;
        uint32_t bits;
    } of;
    if (!(x == x)) return 0;
    of.number = x == 0 ? 0.0f : x;
    return of.bits >> 31 ? ~of.bits : of.bits | 0x80000000u;
}

DEVICE void add_heads(const struct choose_args *a, int64_t query, struct keys seen)
{
    float *scores = a->scores + query * a->keys;
    for (int64_t key = seen.first + threadIdx.x; key < seen.end; key += blockDim.x) {
        float sum = 0;
        for (int64_t head = 0; head < a->heads; head++) {
            float product = a->products[(query * a->heads + head) * a->keys + key];
            if (product > 0) sum += load(a->weights, query * a->weight_stride + head) * product;
        }
        scores[key] = sum;
    }
}

// What the scores of this query are compared with: of `count` that are largest the least. Four bits
// of it at a time: of those that agree in the bits before, how many have each next digit.
enum { DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS };
DEVICE uint32_t threshold_of(const float *scores, struct keys seen, int64_t count)
{
    uint32_t threshold = 0;
    float left = (float)count;
    ROLLED
    for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        float of_digit[DIGITS];
        UNROLL
        for (int d = 0; d < DIGITS; d++)
            of_digit[d] = 0;
        for (int64_t key = seen.first + threadIdx.x; key < seen.end; key += blockDim.x) {
            uint32_t order = order_of(scores[key]);
            // The bits above the digit; there are none of the first.
            bool is_alike = shift + DIGIT_BITS == 32 ||
                            order >> (shift + DIGIT_BITS) == threshold >> (shift + DIGIT_BITS);
            uint32_t digit = order >> shift & (DIGITS - 1);
            UNROLL
            for (uint32_t d = 0; d < DIGITS; d++)
                of_digit[d] += is_alike && digit == d;
        }
        bool is_found = false;
        UNROLL
        for (int d = DIGITS - 1; d >= 0; d--) {
            float here = block_sum(of_digit[d]);
            if (is_found) continue;
            is_found = here >= left;
            if (is_found)
                threshold |= (uint32_t)d << shift;
            else
                left -= here;
        }
    }
    return threshold;
}

// Keys in their order: each thread has some that follow one another.
struct counted {
    int larger, equal;
};
DEVICE struct counted count_in(const float *scores, int64_t first, int64_t end, uint32_t threshold)
{
    struct counted count = {0, 0};
    for (int64_t key = first; key < end; key++) {
        uint32_t order = order_of(scores[key]);
        count.larger += order > threshold;
        count.equal += order == threshold;
    }
    return count;
}

BLOCK_KERNEL(choose, struct choose_args, a)
{
    __shared__ struct counted before[THREADS + 1];
    int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    for (int64_t query = blockIdx.x; query < a.queries; query += gridDim.x) {
        struct keys seen = keys_seen(a.sight, a.first_query + query, a.first_key, a.keys);
        const float *scores = a.scores + query * a.keys;
        int64_t count = seen.end - seen.first, taken = count < a.most ? count : a.most;
        add_heads(&a, query, seen);
        __syncthreads();
        uint32_t threshold = count > a.most ? threshold_of(scores, seen, a.most) : 0;
        int64_t each = (count + threads - 1) / threads;
        int64_t first = seen.first + thread * each, end = first + each;
        if (first > seen.end) first = seen.end;
        if (end > seen.end) end = seen.end;
        struct counted own = count_in(scores, first, end, threshold);
        before[thread + 1] = own;
        __syncthreads();
        if (thread == 0) {
            before[0].larger = before[0].equal = 0;
            for (int t = 0; t < threads; t++) {
                before[t + 1].larger += before[t].larger;
                before[t + 1].equal += before[t].equal;
            }
        }
        __syncthreads();
        int equal_taken = (int)taken - before[threads].larger, equal = before[thread].equal;
        int64_t to = before[thread].larger + (equal < equal_taken ? equal : equal_taken);
        for (int64_t key = first; key < end; key++) {
            uint32_t order = order_of(scores[key]);
            bool is_taken = order > threshold || (order == threshold && equal++ < equal_taken);
            if (is_taken) store(a.chosen, query * a.most + to++, (float)(a.first_key + key));
        }
        for (int64_t i = taken + thread; i < a.most; i += threads)
            store(a.chosen, query * a.most + i, -1);
        __syncthreads();
    }
}

void kernel_choose(struct CUstream_st *stream, const struct choose_args *args)
{
    LAUNCH(choose, *args, blocks_for(args->queries, 1), THREADS, stream);
}
