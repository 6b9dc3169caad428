#include "executor/cuda/device_code.h"

// The gated delta rule of models/op_delta.h, token after token: of the args x, b, c and d are v, k,
// q and beta. Forward: a warp a channel of a head, whose row of the state lies in the registers of
// its lanes. Backward: a block a head of a sequence, a warp a channel in turns, states in memory;
// bound by latency, as tokens follow one another.

enum { WARPS_MAX = 32 };

// A head of a sequence.
struct head_of {
    int64_t head, group, first;  // first: of its tokens' rows
};

DEVICE struct head_of head_at(const struct delta_args *a, int64_t pair)
{
    int64_t head = pair % a->heads;
    struct head_of of = {head, (a->first_head + head) / a->heads_each - a->first_group,
                         pair / a->heads * a->seq};
    return of;
}
DEVICE int64_t step_at(const struct delta_args *a, const struct head_of *of, int64_t t)
{
    return (of->first + t) * a->heads + of->head;
}
DEVICE int64_t group_at(const struct delta_args *a, const struct head_of *of, int64_t t)
{
    return ((of->first + t) * a->groups + of->group) * a->state;
}
DEVICE float rate_of(const struct delta_args *a, int64_t head)
{
    return -expf(load(a->a_log, head));
}
DEVICE float step_of(const struct delta_args *a, const struct head_of *of, int64_t t, int64_t n)
{
    return load(a->dt, step_at(a, of, t) * a->steps + (a->steps > 1 ? n : 0));
}
DEVICE float query_length(const struct delta_args *a)
{
    return 1 / sqrtf((float)a->state);
}

BLOCK_KERNEL(delta, struct delta_args, a)
{
    int64_t rows = a.batch * a.heads * a.width, warps = blockDim.x / 32;
    int64_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t begin = blockIdx.x * warps; begin < rows; begin += gridDim.x * warps) {
        int64_t row = begin + warp < rows ? begin + warp : rows - 1;
        struct head_of of = head_at(&a, row / a.width);
        float rate = rate_of(&a, of.head), h[SCAN_LANES], k[SCAN_LANES];
        UNROLL
        for (int j = 0; j < SCAN_LANES; j++)
            h[j] = 0;
        for (int64_t t = 0; t < a.seq; t++) {
            int64_t step = step_at(&a, &of, t), group = group_at(&a, &of, t);
            int64_t at = step * a.width + row % a.width;
            float of_k = 0, of_q = 0, told = 0, sum = 0, decay = 0;
            UNROLL
            for (int j = 0; j < SCAN_LANES; j++) {
                int64_t n = lane + 32 * j;
                k[j] = n < a.state ? load(a.b, group + n) : 0;
                float q = n < a.state ? load(a.c, group + n) : 0;
                of_k += k[j] * k[j];
                of_q += q * q;
            }
            float by_k = 1 / sqrtf(warp_sum(of_k) + a.epsilon);
            float by_q = query_length(&a) / sqrtf(warp_sum(of_q) + a.epsilon);
            UNROLL
            for (int j = 0; j < SCAN_LANES; j++) {
                int64_t n = lane + 32 * j;
                if (n >= a.state) continue;
                if (j == 0 || a.steps > 1) decay = expf(rate * step_of(&a, &of, t, n));
                k[j] *= by_k;
                h[j] *= decay;
                told += h[j] * k[j];
            }
            float added = load(a.d, step) * (load(a.x, at) - warp_sum(told));
            UNROLL
            for (int j = 0; j < SCAN_LANES; j++) {
                int64_t n = lane + 32 * j;
                h[j] += added * k[j];
                sum += n < a.state ? h[j] * load(a.c, group + n) : 0;
            }
            sum = warp_sum(sum);
            if (lane == 0 && begin + warp < rows) store(a.y, at, sum * by_q);
        }
    }
}

void kernel_delta(struct CUstream_st *stream, const struct delta_args *args)
{
    int64_t rows = args->batch * args->heads * args->width;
    LAUNCH(delta, *args, blocks_for(rows, THREADS / 32), THREADS, stream);
}

// Backward of one head: its room, and where each thread stands. Of each token one over the lengths
// of its key and its query; of one token at a time what each channel adds to the state and what the
// gradient of its recall is, and sums over channels of the gradients of key, query and exponent.
struct back {
    struct head_of of;
    float *kept, *stretch, *gradient, *lengths, *added, *recalled, *columns;
    float rate;
    int warp, warps, lane, width, state, each;
};

DEVICE float decay_of(const struct delta_args *a, const struct back *b, int64_t t, int64_t n)
{
    return expf(b->rate * step_of(a, &b->of, t, n));
}
DEVICE float key_of_token(const struct delta_args *a, const struct back *b, int64_t t, int64_t n)
{
    return load(a->b, group_at(a, &b->of, t) + n) * b->lengths[2 * t];
}

// The state behind tokens [first, first + count) from the one in front of them, one after another:
// into `to`, each behind the last where they are kept. A warp has a channel throughout.
DEVICE void advance(const struct delta_args *a, const struct back *b, const float *from, float *to,
                    int64_t first, int64_t count, bool keeps_all)
{
    ROLLED
    for (int p = b->warp; p < b->width; p += b->warps) {
        float *row = to + p * b->state;
        ROLLED
        for (int n = b->lane; n < b->state; n += 32)
            row[n] = from[p * b->state + n];
        ROLLED
        for (int64_t t = first; t < first + count; t++) {
            int64_t step = step_at(a, &b->of, t);
            float *next = keeps_all ? row + b->each : row, told = 0;
            ROLLED
            for (int n = b->lane; n < b->state; n += 32)
                told += row[n] * decay_of(a, b, t, n) * key_of_token(a, b, t, n);
            told = warp_sum(told);
            float added = load(a->d, step) * (load(a->x, step * a->width + p) - told);
            ROLLED
            for (int n = b->lane; n < b->state; n += 32)
                next[n] = row[n] * decay_of(a, b, t, n) + added * key_of_token(a, b, t, n);
            row = next;
        }
    }
}

// The gradient of the state behind a token with what its own result says, that of its values, and
// what they say to beta, by warp.
DEVICE float channels_back(const struct delta_args *a, const struct back *b, int64_t t,
                           const float *before)
{
    int64_t step = step_at(a, &b->of, t), group = group_at(a, &b->of, t);
    float beta = load(a->d, step), by_q = b->lengths[2 * t + 1] * query_length(a), d_beta = 0;
    ROLLED
    for (int p = b->warp; p < b->width; p += b->warps) {
        int64_t at = step * a->width + p;
        float out = load(a->d_y, at) * by_q, told = 0, d_added = 0;
        ROLLED
        for (int n = b->lane; n < b->state; n += 32) {
            int e = p * b->state + n;
            float key = key_of_token(a, b, t, n);
            float g = b->gradient[e] + out * load(a->c, group + n);
            b->gradient[e] = g;
            told += before[e] * decay_of(a, b, t, n) * key;
            d_added += g * key;
        }
        float error = load(a->x, at) - warp_sum(told);
        d_added = warp_sum(d_added);
        d_beta += d_added * error;
        if (b->lane == 0) {
            store(a->d_x, at, beta * d_added);
            b->added[p] = beta * error;
            b->recalled[p] = -beta * d_added;
        }
    }
    return d_beta;
}

// Sums over the channels, and the gradient of the state in front of the token.
DEVICE void columns_back(const struct delta_args *a, const struct back *b, int64_t t,
                         const float *before)
{
    int64_t step = step_at(a, &b->of, t);
    ROLLED
    for (int n = (int)threadIdx.x; n < b->state; n += (int)blockDim.x) {
        float key = key_of_token(a, b, t, n), decay = decay_of(a, b, t, n);
        float d_k = 0, d_q = 0, d_decay = 0;
        ROLLED
        for (int p = 0; p < b->width; p++) {
            int e = p * b->state + n;
            float g = b->gradient[e], was = before[e];
            d_k += b->added[p] * g + b->recalled[p] * was * decay;
            d_q += load(a->d_y, step * a->width + p) * before[b->each + e];
            g += b->recalled[p] * key;
            d_decay += g * was;
            b->gradient[e] = g * decay;
        }
        b->columns[n] = d_k;
        b->columns[b->state + n] = d_q;
        b->columns[2 * b->state + n] = d_decay * decay;
    }
}

// The gradient of a row before it was brought to its length, by one warp.
DEVICE void length_back(const struct back *b, struct reals rows, int64_t at, float by, float length,
                        const float *d_scaled, float *d_row)
{
    float along = 0;
    ROLLED
    for (int n = b->lane; n < b->state; n += 32)
        along += load(rows, at + n) * d_scaled[n];
    along = warp_sum(along) * by * by;
    ROLLED
    for (int n = b->lane; n < b->state; n += 32)
        d_row[n] = length * by * (d_scaled[n] - along * load(rows, at + n));
}

// What the sums say to the token's key, query and step; returns what they say to a_log.
DEVICE float token_back(const struct delta_args *a, const struct back *b, int64_t t)
{
    int64_t step = step_at(a, &b->of, t), group = group_at(a, &b->of, t);
    int64_t part = ((int64_t)blockIdx.x * a->seq + t) * a->state;
    length_back(b, a->b, group, b->lengths[2 * t], 1, b->columns, a->part_b + part);
    length_back(b, a->c, group, b->lengths[2 * t + 1], query_length(a), b->columns + b->state,
                a->part_c + part);
    float all = 0, weighed = 0;
    ROLLED
    for (int n = b->lane; n < b->state; n += 32) {
        float d_step = b->columns[2 * b->state + n] * b->rate;
        if (a->steps > 1) store(a->d_dt, step * a->steps + n, d_step);
        all += d_step;
        weighed += d_step * step_of(a, &b->of, t, n);
    }
    all = warp_sum(all);
    if (a->steps == 1 && b->lane == 0) store(a->d_dt, step, all);
    return warp_sum(weighed);
}

DEVICE struct back begin(const struct delta_args *a, int64_t pair)
{
    struct back b = {head_at(a, pair),
                     a->rooms + blockIdx.x * a->room,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     (int)(threadIdx.x / 32),
                     (int)(blockDim.x / 32),
                     (int)(threadIdx.x % 32),
                     (int)a->width,
                     (int)a->state,
                     (int)(a->width * a->state)};
    b.rate = rate_of(a, b.of.head);
    b.stretch = b.kept + a->stretches * b.each;
    b.gradient = b.stretch + (a->stride + 1) * b.each;
    b.lengths = b.gradient + b.each;
    b.added = b.lengths + 2 * a->seq;
    b.recalled = b.added + b.width;
    b.columns = b.recalled + b.width;
    ROLLED
    for (int64_t i = b.warp; i < 2 * a->seq; i += b.warps) {
        int64_t group = group_at(a, &b.of, i / 2);
        float squares = 0;
        ROLLED
        for (int n = b.lane; n < b.state; n += 32) {
            float x = load(i % 2 ? a->c : a->b, group + n);
            squares += x * x;
        }
        squares = warp_sum(squares);
        if (b.lane == 0) b.lengths[i] = 1 / sqrtf(squares + a->epsilon);
    }
    ROLLED
    for (int e = (int)threadIdx.x; e < b.each; e += (int)blockDim.x)
        b.kept[e] = b.gradient[e] = 0;
    return b;
}

BLOCK_KERNEL(delta_back, struct delta_args, a)
{
    __shared__ float betas[WARPS_MAX];
    int64_t pair = a.first_pair + blockIdx.x;
    struct back b = begin(&a, pair);
    float d_a_log = 0;
    __syncthreads();
    ROLLED
    for (int64_t i = 1; i < a.stretches; i++)
        advance(&a, &b, b.kept + (i - 1) * b.each, b.kept + i * b.each, (i - 1) * a.stride,
                a.stride, false);
    ROLLED
    for (int64_t i = a.stretches - 1; i >= 0; i--) {
        int64_t first = i * a.stride, left = a.seq - first;
        int64_t count = left < a.stride ? left : a.stride;
        __syncthreads();
        advance(&a, &b, b.kept + i * b.each, b.stretch, first, count, true);
        __syncthreads();
        ROLLED
        for (int64_t t = first + count - 1; t >= first; t--) {
            const float *before = b.stretch + (t - first) * b.each;
            float said = channels_back(&a, &b, t, before);
            if (b.lane == 0) betas[b.warp] = said;
            __syncthreads();
            columns_back(&a, &b, t, before);
            __syncthreads();
            if (b.warp == 0) d_a_log += token_back(&a, &b, t);
            if (threadIdx.x == 0) {
                float d_beta = 0;
                ROLLED
                for (int w = 0; w < b.warps; w++)
                    d_beta += betas[w];
                store(a.d_d, step_at(&a, &b.of, t), d_beta);
            }
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) a.of_heads[pair] = d_a_log;
}

void kernel_delta_backward(struct CUstream_st *stream, const struct delta_args *args)
{
    LAUNCH(delta_back, *args, args->pairs, THREADS, stream);
}

// Adds what the pairs of this launch say to the sums of their groups, heads in order.
KERNEL(delta_join, struct delta_args, a)
{
    int64_t each = a.groups * a.state, count = a.batch * a.seq * each;
    for (int64_t i = INDEX; i < count; i += INDICES) {
        int64_t n = i % a.state, group = i / a.state % a.groups, row = i / each;
        float b = a.first_pair > 0 ? a.sum_b[i] : 0, c = a.first_pair > 0 ? a.sum_c[i] : 0;
        for (int64_t head = 0; head < a.heads; head++) {
            int64_t pair = row / a.seq * a.heads + head - a.first_pair;
            bool is_its = (a.first_head + head) / a.heads_each - a.first_group == group;
            if (!is_its || pair < 0 || pair >= a.pairs) continue;
            int64_t at = (pair * a.seq + row % a.seq) * a.state + n;
            b += a.part_b[at];
            c += a.part_c[at];
        }
        a.sum_b[i] = b;
        a.sum_c[i] = c;
    }
}

void kernel_delta_join(struct CUstream_st *stream, const struct delta_args *args)
{
    int64_t count = args->batch * args->seq * args->groups * args->state;
    LAUNCH(delta_join, *args, blocks_for(count, THREADS), THREADS, stream);
}

KERNEL(delta_store, struct delta_args, a)
{
    int64_t count = a.batch * a.seq * a.groups * a.state;
    for (int64_t i = INDEX; i < count + a.heads; i += INDICES) {
        if (i < count) {
            store_sum(a.d_b, i, a.adds_b, a.sum_b[i]);
            store_sum(a.d_c, i, a.adds_c, a.sum_c[i]);
            continue;
        }
        int64_t head = i - count;
        float d_a_log = 0;
        for (int64_t batch = 0; batch < a.batch; batch++)
            d_a_log += a.of_heads[batch * a.heads + head];
        store_sum(a.d_a_log, head, a.adds_a_log, d_a_log);
    }
}

void kernel_delta_sums(struct CUstream_st *stream, const struct delta_args *args)
{
    int64_t count = args->batch * args->seq * args->groups * args->state + args->heads;
    LAUNCH(delta_store, *args, blocks_for(count, THREADS), THREADS, stream);
}
