#include "executor/cuda/scan_code.h"

// The recurrence of models/op_scan.h, token after token. Forward: a warp a channel of a head, whose
// row of the state lies in the registers of its lanes. Backward: a block a head of a sequence, a
// warp a channel in turns, states in memory; bound by latency, as tokens follow one another.

BLOCK_KERNEL(scan, struct scan_args, a)
{
    int64_t rows = a.batch * a.heads * a.width, warps = blockDim.x / 32;
    int64_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t begin = blockIdx.x * warps; begin < rows; begin += gridDim.x * warps) {
        int64_t row = begin + warp < rows ? begin + warp : rows - 1;
        struct head_of of = head_at(&a, row / a.width);
        float rate = rate_of(&a, of.head), skip = load(a.d, of.head), h[SCAN_LANES];
        UNROLL
        for (int j = 0; j < SCAN_LANES; j++)
            h[j] = 0;
        for (int64_t t = 0; t < a.seq; t++) {
            int64_t step = step_at(&a, &of, t), group = group_at(&a, &of, t);
            int64_t at = step * a.width + row % a.width;
            float dt = load(a.dt, step), x = load(a.x, at), decay = expf(rate * dt), sum = 0;
            UNROLL
            for (int j = 0; j < SCAN_LANES; j++) {
                int64_t n = lane + 32 * j;
                if (n >= a.state) continue;
                h[j] = decay * h[j] + dt * x * load(a.b, group + n);
                sum += h[j] * load(a.c, group + n);
            }
            sum = warp_sum(sum);
            if (lane == 0 && begin + warp < rows) store(a.y, at, sum + skip * x);
        }
    }
}

void kernel_scan(struct CUstream_st *stream, const struct scan_args *args)
{
    int64_t rows = args->batch * args->heads * args->width;
    LAUNCH(scan, *args, blocks_for(rows, THREADS / 32), THREADS, stream);
}

// Backward of one head: its room, and where each thread stands.
struct back {
    struct head_of of;
    float *kept, *stretch, *gradient, *decays;
    int warp, warps, lane, width, state, each;
};

// The state behind tokens [first, first + count) from the one in front of them, one after another:
// into `to`, each behind the last where they are kept. Every thread has the same numbers
// throughout.
DEVICE void advance(const struct scan_args *a, const struct back *b, const float *from, float *to,
                    int64_t first, int64_t count, bool keeps_all)
{
    ROLLED
    for (int p = b->warp; p < b->width; p += b->warps) {
        ROLLED
        for (int n = b->lane; n < b->state; n += 32) {
            int e = p * b->state + n;
            float h = from[e];
            if (keeps_all) to[e] = h;
            ROLLED
            for (int64_t t = first; t < first + count; t++) {
                int64_t step = step_at(a, &b->of, t);
                float x = load(a->x, step * a->width + p) * load(a->dt, step);
                h = b->decays[t] * h + x * load(a->b, group_at(a, &b->of, t) + n);
                if (keeps_all) to[(t - first + 1) * b->each + e] = h;
            }
            if (!keeps_all) to[e] = h;
        }
    }
}

// What one token's channels say, by warp: of the step, the decay and the skip.
struct channel_sums {
    float step, decay, skip;
};

// The gradient of the state behind a token, and what it says to x, the step and the decay.
DEVICE struct channel_sums channels_back(const struct scan_args *a, const struct back *b, int64_t t,
                                         const float *before)
{
    int64_t step = step_at(a, &b->of, t), group = group_at(a, &b->of, t);
    float decay = t + 1 < a->seq ? b->decays[t + 1] : 0, dt = load(a->dt, step);
    float skip = load(a->d, b->of.head);
    struct channel_sums said = {0, 0, 0};
    ROLLED
    for (int p = b->warp; p < b->width; p += b->warps) {
        int64_t at = step * a->width + p;
        float d = load(a->d_y, at), x = load(a->x, at), input = 0, decays = 0;
        ROLLED
        for (int n = b->lane; n < b->state; n += 32) {
            int e = p * b->state + n;
            float g = b->gradient[e] * decay + d * load(a->c, group + n);
            b->gradient[e] = g;
            input += g * load(a->b, group + n);
            decays += g * before[e];
        }
        input = warp_sum(input);
        if (b->lane == 0) store(a->d_x, at, dt * input + skip * d);
        said.step += x * input;
        said.decay += warp_sum(decays);
        said.skip += d * x;
    }
    return said;
}

// What it says to B and C: sums over the channels.
DEVICE void columns_back(const struct scan_args *a, const struct back *b, int64_t t, const float *h)
{
    int64_t step = step_at(a, &b->of, t), pair = blockIdx.x;
    float dt = load(a->dt, step);
    ROLLED
    for (int i = (int)threadIdx.x; i < 2 * b->state; i += (int)blockDim.x) {
        int n = i % b->state;
        bool is_b = i < b->state;
        float sum = 0;
        ROLLED
        for (int p = 0; p < b->width; p++) {
            int64_t at = step * a->width + p;
            int e = p * b->state + n;
            sum += is_b ? dt * load(a->x, at) * b->gradient[e] : load(a->d_y, at) * h[e];
        }
        (is_b ? a->part_b : a->part_c)[(pair * a->seq + t) * a->state + n] = sum;
    }
}

DEVICE struct back begin(const struct scan_args *a, int64_t pair)
{
    struct back b = {head_at(a, pair),
                     a->rooms + blockIdx.x * a->room,
                     0,
                     0,
                     0,
                     (int)(threadIdx.x / 32),
                     (int)(blockDim.x / 32),
                     (int)(threadIdx.x % 32),
                     (int)a->width,
                     (int)a->state,
                     (int)(a->width * a->state)};
    b.stretch = b.kept + a->stretches * b.each;
    b.gradient = b.stretch + (a->stride + 1) * b.each;
    b.decays = b.gradient + b.each;
    float rate = rate_of(a, b.of.head);
    ROLLED
    for (int64_t t = threadIdx.x; t < a->seq; t += blockDim.x)
        b.decays[t] = expf(rate * load(a->dt, step_at(a, &b.of, t)));
    ROLLED
    for (int p = b.warp; p < b.width; p += b.warps) {
        ROLLED
        for (int n = b.lane; n < b.state; n += 32)
            b.kept[p * b.state + n] = b.gradient[p * b.state + n] = 0;
    }
    return b;
}

BLOCK_KERNEL(scan_back, struct scan_args, a)
{
    __shared__ float steps[WARPS_MAX], decays[WARPS_MAX], skips[WARPS_MAX];
    int64_t pair = a.first_pair + blockIdx.x;
    struct back b = begin(&a, pair);
    float rate = rate_of(&a, b.of.head), d_a_log = 0, d_d = 0;
    __syncthreads();
    ROLLED
    for (int64_t i = 1; i < a.stretches; i++)
        advance(&a, &b, b.kept + (i - 1) * b.each, b.kept + i * b.each, (i - 1) * a.stride,
                a.stride, false);
    ROLLED
    for (int64_t i = a.stretches - 1; i >= 0; i--) {
        int64_t first = i * a.stride, left = a.seq - first;
        int64_t count = left < a.stride ? left : a.stride;
        advance(&a, &b, b.kept + i * b.each, b.stretch, first, count, true);
        ROLLED
        for (int64_t t = first + count - 1; t >= first; t--) {
            const float *before = b.stretch + (t - first) * b.each;
            struct channel_sums said = channels_back(&a, &b, t, before);
            if (b.lane == 0) {
                steps[b.warp] = said.step;
                decays[b.warp] = said.decay;
                skips[b.warp] = said.skip;
            }
            __syncthreads();
            columns_back(&a, &b, t, before + b.each);
            if (threadIdx.x == 0) {
                float d_step = 0, d_decay = 0;
                ROLLED
                for (int w = 0; w < b.warps; w++) {
                    d_step += steps[w];
                    d_decay += decays[w];
                    d_d += skips[w];
                }
                int64_t step = step_at(&a, &b.of, t);
                d_decay *= b.decays[t] * rate;
                store(a.d_dt, step, d_step + d_decay);
                d_a_log += d_decay * load(a.dt, step);
            }
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        a.of_heads[2 * pair] = d_a_log;
        a.of_heads[2 * pair + 1] = d_d;
    }
}

// Adds what the pairs of this launch say to the sums of their groups, heads in order.
KERNEL(scan_join, struct scan_args, a)
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

void kernel_scan_backward(struct CUstream_st *stream, const struct scan_args *args)
{
    LAUNCH(scan_back, *args, args->pairs, THREADS, stream);
}

void kernel_scan_join(struct CUstream_st *stream, const struct scan_args *args)
{
    int64_t count = args->batch * args->seq * args->groups * args->state;
    LAUNCH(scan_join, *args, blocks_for(count, THREADS), THREADS, stream);
}

KERNEL(scan_store, struct scan_args, a)
{
    int64_t count = a.batch * a.seq * a.groups * a.state;
    for (int64_t i = INDEX; i < count + a.heads; i += INDICES) {
        if (i < count) {
            store_sum(a.d_b, i, a.adds_b, a.sum_b[i]);
            store_sum(a.d_c, i, a.adds_c, a.sum_c[i]);
            continue;
        }
        int64_t head = i - count;
        float d_a_log = 0, d_d = 0;
        for (int64_t batch = 0; batch < a.batch; batch++) {
            d_a_log += a.of_heads[2 * (batch * a.heads + head)];
            d_d += a.of_heads[2 * (batch * a.heads + head) + 1];
        }
        store_sum(a.d_a_log, head, a.adds_a_log, d_a_log);
        if (!a.steps) store_sum(a.d_d, head, a.adds_d, d_d);
    }
}

void kernel_scan_sums(struct CUstream_st *stream, const struct scan_args *args)
{
    int64_t count = args->batch * args->seq * args->groups * args->state + args->heads;
    LAUNCH(scan_store, *args, blocks_for(count, THREADS), THREADS, stream);
}
