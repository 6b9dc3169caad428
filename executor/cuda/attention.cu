#include "executor/cuda/device_code.h"

// What stands between the GEMMs of attention: masks, softmax, dropout and their gradients, a
// block a row of scores.

DEVICE float slope_of(double alibi, int64_t head, int64_t whole_heads)
{
    return (float)(alibi * exp2(-8.0 * (double)(head + 1) / (double)whole_heads));
}
DEVICE float slope_of_head(const struct attend_args *a, int64_t head)
{
    return a->alibi > 0 ? slope_of(a->alibi, a->first_head + head, a->whole_heads) : 0;
}

// A GEMM of query and key to the score: scaled already, capped, moved by the distance.
DEVICE float score_of(const struct attend_args *a, float slope, float x, int64_t key)
{
    if (a->softcap > 0) x = a->softcap * tanhf(x / a->softcap);
    return x + slope * (float)(a->first_key + key);
}

DEVICE float kept(const struct attend_args *a, int64_t head, int64_t query, int64_t key)
{
    if (a->dropout_ratio <= 0) return 1;
    int64_t at = a->sequence * a->dropout_heads + a->first_head + head;
    at = (at * a->whole_queries + a->first_query + query) * a->whole_keys + a->first_key + key;
    if (!random_keeps(key_of(a->key, a->key_at), (uint64_t)at, a->dropout_ratio)) return 0;
    return (float)(1 / (1 - a->dropout_ratio));
}

// The keys that a query sees: those of a range, or the chosen ones, of which others have those that
// are below 0.
DEVICE int64_t keys_count(const struct attend_args *a, struct keys seen)
{
    return a->chosen.data ? a->chosen_count : seen.end - seen.first;
}
DEVICE int64_t key_at(const struct attend_args *a, struct keys seen, int64_t query, int64_t i)
{
    if (!a->chosen.data) return seen.first + i;
    int64_t key = (int64_t)load(a->chosen, query * a->chosen_count + i) - a->first_key;
    return key < a->keys ? key : -1;
}
// The sums that follow let no thread write a chosen key's before all have done this.
DEVICE void clear_unseen(const struct attend_args *a, struct keys seen, struct reals row,
                         int64_t first)
{
    for (int64_t i = threadIdx.x; i < a->keys; i += blockDim.x) {
        bool is_seen = !a->chosen.data && i >= seen.first && i < seen.end;
        if (!is_seen) store(row, first + i, 0);
    }
}

BLOCK_KERNEL(attend, struct attend_args, a)
{
    for (int64_t row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
        int64_t head = row / a.queries, query = row % a.queries;
        const float *scores = a.scores + row * a.keys;
        struct keys seen = keys_seen(a.sight, a.first_query + query, a.first_key, a.keys);
        float slope = slope_of_head(&a, head), before = -INFINITY, total = 0;
        if (a.merges) {
            before = load(a.lse, query * a.lse_stride + head);
        } else if (a.sink.data) {
            before = load(a.sink, head);
        }
        float most = before;
        int64_t count = keys_count(&a, seen);
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            int64_t key = key_at(&a, seen, query, i);
            if (key >= 0) most = fmaxf(most, score_of(&a, slope, scores[key], key));
        }
        most = block_max(most);
        bool is_empty = most == -INFINITY;
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            int64_t key = key_at(&a, seen, query, i);
            if (key >= 0) total += expf(score_of(&a, slope, scores[key], key) - most);
        }
        clear_unseen(&a, seen, a.weights, row * a.keys);
        total = block_sum(total);
        float rest = before > -INFINITY ? expf(before - most) : 0;
        total += rest;
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            int64_t key = key_at(&a, seen, query, i);
            if (key < 0) continue;
            float p = is_empty ? 0 : expf(score_of(&a, slope, scores[key], key) - most) / total;
            store(a.weights, row * a.keys + key, p * kept(&a, head, query, key));
        }
        // All threads have read the log-sum-exp when the sums above are known.
        if (threadIdx.x > 0) continue;
        store(a.lse, query * a.lse_stride + head, is_empty ? -INFINITY : most + logf(total));
        if (a.merges) a.factors[row] = is_empty ? 0 : rest / total;
    }
}

void kernel_attend(struct CUstream_st *stream, const struct attend_args *args)
{
    LAUNCH(attend, *args, blocks_for(args->heads * args->queries, 1), THREADS, stream);
}

struct merge_args {
    struct attend_args attend;
    const float *fresh;
};
KERNEL(attend_merge, struct merge_args, m)
{
    struct attend_args a = m.attend;
    for (int64_t i = INDEX; i < a.heads * a.queries * a.value_width; i += INDICES) {
        int64_t row = i / a.value_width, head = row / a.queries, query = row % a.queries;
        int64_t at = query * a.out_stride + head * a.value_width + i % a.value_width;
        store(a.out, at, a.factors[row] * load(a.out, at) + m.fresh[i]);
    }
}

void kernel_attend_merge(struct CUstream_st *stream, const struct attend_args *args,
                         const float *fresh)
{
    struct merge_args merge = {*args, fresh};
    int64_t count = args->heads * args->queries * args->value_width;
    LAUNCH(attend_merge, merge, blocks_for(count, THREADS), THREADS, stream);
}

// With m = d . out: d_score = p (d_p - m) scale, through the slope of the cap.
BLOCK_KERNEL(attend_back, struct attend_args, a)
{
    for (int64_t row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
        int64_t head = row / a.queries, query = row % a.queries;
        int64_t out = query * a.out_stride + head * a.value_width;
        struct keys seen = keys_seen(a.sight, a.first_query + query, a.first_key, a.keys);
        float slope = slope_of_head(&a, head), mean = 0;
        float lse = load(a.lse, query * a.lse_stride + head);
        for (int64_t i = threadIdx.x; i < a.value_width; i += blockDim.x)
            mean += load(a.d, out + i) * load(a.out, out + i);
        clear_unseen(&a, seen, a.weights, row * a.keys);
        clear_unseen(&a, seen, a.d_weights, row * a.keys);
        mean = block_sum(mean);
        int64_t count = keys_count(&a, seen);
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            int64_t key = key_at(&a, seen, query, i), at = row * a.keys + key;
            if (key < 0) continue;
            float p = expf(score_of(&a, slope, a.scores[at], key) - lse);
            float factor = kept(&a, head, query, key);
            float d = p * (a.d_scores[at] * factor - mean) * a.scale;
            float t = a.softcap > 0 ? tanhf(a.scores[at] / a.softcap) : 0;
            store(a.weights, at, p * factor);
            store(a.d_weights, at, d * (1 - t * t));
        }
    }
}

void kernel_attend_backward(struct CUstream_st *stream, const struct attend_args *args)
{
    LAUNCH(attend_back, *args, blocks_for(args->heads * args->queries, 1), THREADS, stream);
}

// A warp a row, bound by memory. What is behind the last row does the last one's once more, and
// writes nothing.
BLOCK_KERNEL(sinks_back, struct sink_args, a)
{
    int64_t warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t begin = blockIdx.x * warps; begin < a.rows; begin += gridDim.x * warps) {
        int64_t row = begin + warp < a.rows ? begin + warp : a.rows - 1;
        int64_t head = row % a.heads, query = row / a.heads % a.queries;
        int64_t sequence = row / a.heads / a.queries;
        float mean = 0;
        for (int64_t i = lane; i < a.width; i += 32)
            mean += load(a.d, row * a.width + i) * load(a.out, row * a.width + i);
        mean = warp_sum(mean);
        if (lane > 0 || begin + warp >= a.rows) continue;
        a.result[(sequence * a.heads + head) * a.queries + query] =
            -expf(load(a.sink, head) - load(a.lse, row)) * mean;
    }
}

void kernel_sinks_backward(struct CUstream_st *stream, const struct sink_args *args)
{
    LAUNCH(sinks_back, *args, blocks_for(args->rows, THREADS / 32), THREADS, stream);
}

// A warp a row, bound by memory. Its first lane reads the log-sum-exp, for all, and writes it.
BLOCK_KERNEL(attend_join, struct join_args, a)
{
    int64_t warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t begin = blockIdx.x * warps; begin < a.rows; begin += gridDim.x * warps) {
        bool is_row = begin + warp < a.rows;
        int64_t row = is_row ? begin + warp : a.rows - 1;
        float before = warp_max(lane > 0 || !is_row ? -INFINITY : load(a.lse, row));
        float fresh = load(a.fresh_lse, row), most = fmaxf(before, fresh);
        if (!is_row || fresh == -INFINITY) continue;
        float lse = most + logf(expf(before - most) + expf(fresh - most));
        float left = expf(before - lse), added = expf(fresh - lse);
        for (int64_t i = lane; i < a.width; i += 32) {
            int64_t at = row * a.width + i;
            store(a.out, at, left * load(a.out, at) + added * load(a.fresh, at));
        }
        if (lane == 0) store(a.lse, row, lse);
    }
}

void kernel_attend_join(struct CUstream_st *stream, const struct join_args *args)
{
    LAUNCH(attend_join, *args, blocks_for(args->rows, THREADS / 32), THREADS, stream);
}

KERNEL(slopes, struct slope_args, a)
{
    for (int64_t i = INDEX; i < a.heads; i += INDICES)
        a.slopes[i] = slope_of(a.alibi, a.first_head + i, a.whole_heads);
}

void kernel_slopes(struct CUstream_st *stream, const struct slope_args *args)
{
    LAUNCH(slopes, *args, blocks_for(args->heads, THREADS), THREADS, stream);
}

// Beyond all scores, and a number of 16 bits: finite, so that a row of which no key here is chosen
// has numbers, which weigh nothing beside those of a row that has some.
static const float NOT_CHOSEN = -6e4f;

// A block a row, which is written: bound by memory.
BLOCK_KERNEL(choice, struct choice_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        for (int64_t key = threadIdx.x; key < a.stride; key += blockDim.x)
            store(a.added, row * a.stride + key, NOT_CHOSEN);
        __syncthreads();
        for (int64_t i = threadIdx.x; i < a.chosen_count; i += blockDim.x) {
            int64_t key = (int64_t)load(a.chosen, row * a.chosen_count + i) - a.first_key;
            if (key >= 0 && key < a.keys) store(a.added, row * a.stride + key, 0);
        }
    }
}

void kernel_choice(struct CUstream_st *stream, const struct choice_args *args)
{
    LAUNCH(choice, *args, blocks_for(args->rows, 1), THREADS, stream);
}
