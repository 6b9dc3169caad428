#include "executor/cuda/device_code.h"
#include "executor/cuda/selective.h"

// Scans with a decay for each number of a channel's state: see plan/selective.h. Neighbouring
// threads have neighbouring channels, so that they read and write neighbours; of each channel CHUNK
// numbers of the state are worked on at a time, in registers. Bound by the exponentials of decays.

// A stretch of a sequence, and where it has its numbers.
struct stretch {
    int64_t row, states, sums;  // row: its first token; states: of channel 0 and number 0
    int tokens;
};

DEVICE struct stretch stretch_at(const struct selective_args *a, int64_t at)
{
    struct split of = split_of(at, a->stretches);
    int64_t first = of.column * SELECTIVE_TOKENS, left = a->seq - first;
    struct stretch s = {of.line * a->seq + first, at * a->state * a->channels, at * a->channels,
                        (int)(left < SELECTIVE_TOKENS ? left : SELECTIVE_TOKENS)};
    return s;
}

DEVICE int numbers_from(const struct selective_args *a, int first)
{
    int left = (int)a->state - first;
    return left < CHUNK ? left : CHUNK;
}
// By powers of two, for numbers from `first` on; those that there are not stay as they are.
DEVICE void load_rates(const struct selective_args *a, int64_t channel, int first, float *rates)
{
    int n = numbers_from(a, first);
    load_chunk(a->a_log, channel * a->state + first, n, rates);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        rates[j] = j < n ? -expf(rates[j]) * 1.44269504f : 0;
}
DEVICE void load_states(const struct selective_args *a, const float *room, int64_t at, int first,
                        float *h)
{
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        h[j] = first + j < (int)a->state ? room[at + (first + j) * a->channels] : 0;
}
DEVICE void store_states(const struct selective_args *a, float *room, int64_t at, int first,
                         const float *h)
{
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        if (first + j < (int)a->state) room[at + (first + j) * a->channels] = h[j];
}
DEVICE void load_numbers(const struct selective_args *a, struct reals of, int64_t row, int first,
                         float *v)
{
    load_chunk(of, row * a->state + first, numbers_from(a, first), v);
}
static inline HOST_AND_DEVICE int64_t chunks_of(int64_t state)
{
    return (state + CHUNK - 1) / CHUNK;
}

// The state behind a token.
DEVICE void advance(const float *rates, float step, float in, const float *b, float *h)
{
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        h[j] = exp2f(rates[j] * step) * h[j] + in * b[j];
}

// What a stretch brings to the state, and backward what its results say to the state in front.
KERNEL(selective_ends, struct selective_args, a)
{
    int64_t chunks = chunks_of(a.state);
    for (int64_t i = INDEX; i < a.batch * a.stretches * chunks * a.channels; i += INDICES) {
        struct split channel = split_of(i, a.channels), chunk = split_of(channel.line, chunks);
        struct stretch s = stretch_at(&a, chunk.line);
        int first = (int)chunk.column * CHUNK;
        float rates[CHUNK], h[CHUNK], left[CHUNK], said[CHUNK], v[CHUNK], sum = 0;
        load_rates(&a, channel.column, first, rates);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            h[j] = said[j] = 0, left[j] = 1;
        ROLLED
        for (int t = 0; t < s.tokens; t++) {
            int64_t at = (s.row + t) * a.channels + channel.column;
            float step = load(a.dt, at), in = step * load(a.x, at);
            sum += step;
            load_numbers(&a, a.b, s.row + t, first, v);
            if (!a.d_y.data) {
                advance(rates, step, in, v, h);
                continue;
            }
            float out = load(a.d_y, at);
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                float decay = exp2f(rates[j] * step);
                h[j] = decay * h[j] + in * v[j];
                left[j] *= decay;
            }
            load_numbers(&a, a.c, s.row + t, first, v);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                said[j] += left[j] * out * v[j];
        }
        store_states(&a, a.states, s.states + channel.column, first, h);
        if (a.d_y.data) store_states(&a, a.gradients, s.states + channel.column, first, said);
        if (first == 0) a.sums[s.sums + channel.column] = sum;
    }
}

// A number of the state of a channel, from stretch to stretch, and its gradient back.
KERNEL(selective_pass, struct selective_args, a)
{
    int64_t each = a.state * a.channels;
    for (int64_t i = INDEX; i < a.batch * each; i += INDICES) {
        struct split number = split_of(i, a.channels), batch = split_of(number.line, a.state);
        int64_t at = batch.line * a.stretches * each + batch.column * a.channels + number.column;
        int64_t sums = batch.line * a.stretches * a.channels + number.column;
        float rate = -expf(load(a.a_log, number.column * a.state + batch.column));
        float state = 0, gradient = 0;
        for (int64_t s = 0; s < a.stretches; s++) {
            float brought = a.states[at + s * each];
            a.states[at + s * each] = state;
            state = expf(rate * a.sums[sums + s * a.channels]) * state + brought;
        }
        for (int64_t s = a.stretches - 1; s >= 0 && a.d_y.data; s--) {
            float said = a.gradients[at + s * each];
            a.gradients[at + s * each] = gradient;
            gradient = expf(rate * a.sums[sums + s * a.channels]) * gradient + said;
        }
    }
}

// Each thread has a column of its own of what is shared.
BLOCK_KERNEL(selective_out, struct selective_args, a)
{
    __shared__ float results[SELECTIVE_TOKENS][THREADS];
    for (int64_t i = INDEX; i < a.batch * a.stretches * a.channels; i += INDICES) {
        struct split channel = split_of(i, a.channels);
        struct stretch s = stretch_at(&a, channel.line);
        float skip = load(a.d, channel.column), rates[CHUNK], h[CHUNK], v[CHUNK];
        ROLLED
        for (int first = 0; first < a.state; first += CHUNK) {
            load_rates(&a, channel.column, first, rates);
            load_states(&a, a.states, s.states + channel.column, first, h);
            ROLLED
            for (int t = 0; t < s.tokens; t++) {
                int64_t at = (s.row + t) * a.channels + channel.column;
                float step = load(a.dt, at), x = load(a.x, at);
                float y = first > 0 ? results[t][threadIdx.x] : skip * x;
                load_numbers(&a, a.b, s.row + t, first, v);
                advance(rates, step, step * x, v, h);
                load_numbers(&a, a.c, s.row + t, first, v);
                UNROLL
                for (int j = 0; j < CHUNK; j++)
                    y += h[j] * v[j];
                results[t][threadIdx.x] = y;
            }
        }
        ROLLED
        for (int t = 0; t < s.tokens; t++)
            store(a.y, (s.row + t) * a.channels + channel.column, results[t][threadIdx.x]);
    }
}

void kernel_selective(struct CUstream_st *stream, const struct selective_args *args)
{
    int64_t channels = args->batch * args->stretches * args->channels;
    LAUNCH(selective_ends, *args, blocks_for(channels * chunks_of(args->state), THREADS), THREADS,
           stream);
    LAUNCH(selective_pass, *args, blocks_for(args->batch * args->state * args->channels, THREADS),
           THREADS, stream);
    LAUNCH(selective_out, *args, blocks_for(channels, THREADS), THREADS, stream);
}

// A channel of a stretch, of which some lanes have none: their numbers are 0.
struct walker {
    struct stretch s;
    int channel;
    bool is_one;
};
DEVICE float load_one(const struct selective_args *a, const struct walker *w, struct reals of,
                      int t)
{
    return w->is_one ? load(of, (w->s.row + t) * a->channels + w->channel) : 0;
}
// Sums of each of CHUNK numbers over a warp; lane 4 j has that of number j.
DEVICE float sums_by_lane(const float *v)
{
    float low[4], two[2], one;
    bool upper = threadIdx.x & 16, second = threadIdx.x & 8, odd = threadIdx.x & 4;
    UNROLL
    for (int j = 0; j < 4; j++)
        low[j] =
            (upper ? v[j + 4] : v[j]) + __shfl_xor_sync(0xFFFFFFFFu, upper ? v[j] : v[j + 4], 16);
    UNROLL
    for (int j = 0; j < 2; j++)
        two[j] = (second ? low[j + 2] : low[j]) +
                 __shfl_xor_sync(0xFFFFFFFFu, second ? low[j] : low[j + 2], 8);
    one = (odd ? two[1] : two[0]) + __shfl_xor_sync(0xFFFFFFFFu, odd ? two[0] : two[1], 4);
    one += __shfl_xor_sync(0xFFFFFFFFu, one, 2);
    return one + __shfl_xor_sync(0xFFFFFFFFu, one, 1);
}
DEVICE void say(const struct selective_args *a, float *parts, int part, int64_t row, int first,
                bool adds, const float *v)
{
    float sum = sums_by_lane(v);
    int n = first + (int)(threadIdx.x % 32) / 4;
    if (threadIdx.x % 4 != 0 || n >= a->state) return;
    float *at = parts + (part * a->batch * a->seq + row) * a->state + n;
    *at = adds ? *at + sum : sum;
}

// What a block keeps on the chip; each thread has a column of its own.
enum { LANES = SELECTIVE_BACK_THREADS, PIECES = SELECTIVE_TOKENS / SELECTIVE_PIECE };
struct kept_states {
    float pieces[PIECES][CHUNK][LANES];            // in front of each piece
    float tokens[SELECTIVE_PIECE][CHUNK][LANES];   // and of each token of a piece
    float rates[CHUNK][LANES], d_a[CHUNK][LANES];  // sums over tokens
    // Of each token sums over numbers: what goes to x and its step, and to the step by decays.
    float inputs[SELECTIVE_TOKENS][LANES], steps[SELECTIVE_TOKENS][LANES];
};
// Of the numbers of one chunk, on the way back: gradients of the state behind a token.
struct chunk_back {
    float g[CHUNK];
    int first;
    bool adds;  // to what a warp has said of other channels
    int part;   // where it says it
};

DEVICE void step_to(const struct selective_args *a, const struct walker *w,
                    const struct kept_states *kept, int first, int t, float *h)
{
    float step = load_one(a, w, a->dt, t), rates[CHUNK], v[CHUNK];
    load_numbers(a, a->b, w->s.row + t, first, v);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        rates[j] = kept->rates[j][threadIdx.x];
    advance(rates, step, step * load_one(a, w, a->x, t), v, h);
}

// Token t of the stretch, i of its piece; h: the state behind it, which that in front becomes.
DEVICE void token_back(const struct selective_args *a, const struct walker *w, struct chunk_back *b,
                       struct kept_states *kept, int t, int i, float *h)
{
    float step = load_one(a, w, a->dt, t), out = load_one(a, w, a->d_y, t), v[CHUNK];
    float in = step * load_one(a, w, a->x, t), input = 0, by_decay = 0;
    int lane = (int)threadIdx.x;
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        h[j] *= out;
    say(a, a->part_c, b->part, w->s.row + t, b->first, b->adds, h);
    load_numbers(a, a->c, w->s.row + t, b->first, v);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        b->g[j] += out * v[j], h[j] = in * b->g[j];
    say(a, a->part_b, b->part, w->s.row + t, b->first, b->adds, h);
    load_numbers(a, a->b, w->s.row + t, b->first, v);
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        input += b->g[j] * v[j];
        h[j] = kept->tokens[i][j][lane];
        float rate = kept->rates[j][lane];
        b->g[j] *= exp2f(rate * step);
        float exponent = b->g[j] * h[j] * rate * 0.693147181f;
        by_decay += exponent;
        kept->d_a[j][lane] += exponent * step;
    }
    bool adds = b->first > 0;
    kept->inputs[t][lane] = adds ? kept->inputs[t][lane] + input : input;
    kept->steps[t][lane] = adds ? kept->steps[t][lane] + by_decay : by_decay;
}

// Keeps the states in front of all pieces, the first of which is there.
DEVICE void keep_pieces(const struct selective_args *a, const struct walker *w,
                        const struct chunk_back *b, struct kept_states *kept, float *h)
{
    int last = (w->s.tokens - 1) / SELECTIVE_PIECE;
    ROLLED
    for (int p = 0; p < last; p++) {
        ROLLED
        for (int t = p * SELECTIVE_PIECE; t < (p + 1) * SELECTIVE_PIECE; t++)
            step_to(a, w, kept, b->first, t, h);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            kept->pieces[p + 1][j][threadIdx.x] = h[j];
    }
}

// All tokens of a stretch, for one chunk of the numbers.
DEVICE void stretch_back(const struct selective_args *a, const struct walker *w,
                         struct chunk_back *b, struct kept_states *kept)
{
    float h[CHUNK];
    int lane = (int)threadIdx.x;
    load_rates(a, w->channel, b->first, h);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        kept->rates[j][lane] = h[j];
    ROLLED
    for (int j = 0; j < CHUNK; j++) {
        bool is_one = w->is_one && j < numbers_from(a, b->first);
        int64_t number = w->s.states + w->channel + (b->first + j) * a->channels;
        kept->pieces[0][j][lane] = is_one ? a->states[number] : 0;
        kept->tokens[0][j][lane] = is_one ? a->gradients[number] : 0;
        kept->d_a[j][lane] = 0;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        h[j] = kept->pieces[0][j][lane], b->g[j] = kept->tokens[0][j][lane];
    keep_pieces(a, w, b, kept, h);
    ROLLED
    for (int p = (w->s.tokens - 1) / SELECTIVE_PIECE; p >= 0; p--) {
        int begins = p * SELECTIVE_PIECE, left = w->s.tokens - begins;
        int count = left < SELECTIVE_PIECE ? left : SELECTIVE_PIECE;
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            h[j] = kept->pieces[p][j][lane];
        ROLLED
        for (int t = 0; t < count; t++) {
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                kept->tokens[t][j][lane] = h[j];
            step_to(a, w, kept, b->first, begins + t, h);
        }
        ROLLED
        for (int t = count - 1; t >= 0; t--)
            token_back(a, w, b, kept, begins + t, t, h);
    }
    ROLLED
    for (int j = 0; j < numbers_from(a, b->first) && w->is_one; j++)
        a->states[w->s.states + w->channel + (b->first + j) * a->channels] = kept->d_a[j][lane];
}

// A block has the same stretch of all channels of a part, so many at a time.
BLOCK_KERNEL(selective_back, struct selective_args, a)
{
    __shared__ struct kept_states kept;
    struct split at = split_of(blockIdx.x, a.parts);
    int64_t lane = threadIdx.x;
    struct chunk_back b;
    b.part = (int)(at.column * SELECTIVE_WARPS + lane / 32);
    ROLLED
    for (int64_t begin = at.column * LANES; begin < a.channels; begin += a.parts * LANES) {
        int channel = (int)(begin + lane);
        struct walker w = {stretch_at(&a, at.line),
                           channel < a.channels ? channel : (int)a.channels - 1,
                           channel < a.channels};
        b.adds = begin >= a.parts * LANES;
        ROLLED
        for (b.first = 0; b.first < a.state; b.first += CHUNK)
            stretch_back(&a, &w, &b, &kept);
        float skip = load(a.d, w.channel), d_skip = 0;
        ROLLED
        for (int t = 0; t < w.s.tokens && w.is_one; t++) {
            int64_t row = (w.s.row + t) * a.channels + channel;
            float x = load(a.x, row), out = load(a.d_y, row), input = kept.inputs[t][lane];
            store(a.d_x, row, load(a.dt, row) * input + skip * out);
            store(a.d_dt, row, x * input + kept.steps[t][lane]);
            d_skip += x * out;
        }
        if (w.is_one) a.sums[w.s.sums + channel] = d_skip;
    }
}

// Sums over parts, of B and C, and over stretches, of A and d, in order.
KERNEL(selective_store, struct selective_args, a)
{
    int64_t rows = a.batch * a.seq * a.state, numbers = a.channels * a.state;
    int64_t stretches = a.batch * a.stretches;
    for (int64_t i = INDEX; i < rows + numbers + a.channels; i += INDICES) {
        float sum = 0, other = 0;
        if (i < rows) {
            for (int64_t part = 0; part < a.parts * SELECTIVE_WARPS; part++) {
                sum += a.part_b[part * rows + i];
                other += a.part_c[part * rows + i];
            }
            store_sum(a.d_b, i, a.adds_b, sum);
            store_sum(a.d_c, i, a.adds_c, other);
        } else if (i < rows + numbers) {
            struct split of = split_of(i - rows, a.channels);
            for (int64_t s = 0; s < stretches; s++)
                sum += a.states[s * numbers + i - rows];
            store_sum(a.d_a_log, of.column * a.state + of.line, a.adds_a_log, sum);
        } else {
            for (int64_t s = 0; s < stretches; s++)
                sum += a.sums[s * a.channels + i - rows - numbers];
            store_sum(a.d_d, i - rows - numbers, a.adds_d, sum);
        }
    }
}

void kernel_selective_backward(struct CUstream_st *stream, const struct selective_args *args)
{
    int64_t stretches = args->batch * args->stretches, numbers = args->channels * args->state;
    int64_t sums = args->batch * args->seq * args->state + numbers + args->channels;
    LAUNCH(selective_ends, *args,
           blocks_for(stretches * args->channels * chunks_of(args->state), THREADS), THREADS,
           stream);
    LAUNCH(selective_pass, *args, blocks_for(args->batch * numbers, THREADS), THREADS, stream);
    LAUNCH(selective_back, *args, stretches * args->parts, SELECTIVE_BACK_THREADS, stream);
    LAUNCH(selective_store, *args, blocks_for(sums, THREADS), THREADS, stream);
}
