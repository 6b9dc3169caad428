#include "executor/cuda/device_code.h"

// The causal convolution of each channel with its own taps, a thread a number: bound by memory.
// Taps are innermost where weights are stored; of K, tap k reads the token K - 1 - k before.

DEVICE float convolved(const struct conv_args *a, int64_t i)
{
    int64_t channel = i % a->channels, t = i / a->channels % a->seq;
    float sum = a->bias.data ? load(a->bias, channel) : 0;
    for (int k = 0; k < a->taps; k++) {
        int64_t back = a->taps - 1 - k;
        if (back <= t)
            sum += load(a->weight, channel * a->taps + k) * load(a->x, i - back * a->channels);
    }
    return sum;
}

KERNEL(conv, struct conv_args, a)
{
    for (int64_t i = INDEX; i < a.batch * a.seq * a.channels; i += INDICES) {
        float sum = convolved(&a, i);
        store(a.y, i, a.has_silu ? sum / (1 + expf(-sum)) : sum);
    }
}

void kernel_conv(struct CUstream_st *stream, const struct conv_args *args)
{
    int64_t count = args->batch * args->seq * args->channels;
    LAUNCH(conv, *args, blocks_for(count, THREADS), THREADS, stream);
}

// The gradient of what the function was given, which is made again.
KERNEL(conv_slopes, struct conv_args, a)
{
    for (int64_t i = INDEX; i < a.batch * a.seq * a.channels; i += INDICES) {
        float d = load(a.d, i);
        if (a.has_silu) {
            float sum = convolved(&a, i), p = 1 / (1 + expf(-sum));
            d *= p * (1 + sum * (1 - p));
        }
        a.d_sum[i] = d;
    }
}

KERNEL(conv_inputs, struct conv_args, a)
{
    for (int64_t i = INDEX; i < a.batch * a.seq * a.channels; i += INDICES) {
        int64_t channel = i % a.channels, t = i / a.channels % a.seq;
        float sum = 0;
        for (int k = 0; k < a.taps; k++) {
            int64_t ahead = a.taps - 1 - k;
            if (t + ahead < a.seq)
                sum += load(a.weight, channel * a.taps + k) * a.d_sum[i + ahead * a.channels];
        }
        store(a.d_x, i, sum);
    }
}

// A thread a channel and chunk of tokens.
KERNEL(conv_weights, struct conv_args, a)
{
    int64_t tokens = a.batch * a.seq, chunks = (tokens + CONV_CHUNK - 1) / CONV_CHUNK;
    for (int64_t i = INDEX; i < chunks * a.channels; i += INDICES) {
        int64_t chunk = i / a.channels, channel = i % a.channels;
        float sums[CONV_TAPS_MAX + 1];
        UNROLL
        for (int k = 0; k <= CONV_TAPS_MAX; k++)
            sums[k] = 0;
        int64_t end = (chunk + 1) * CONV_CHUNK;
        for (int64_t row = chunk * CONV_CHUNK; row < end && row < tokens; row++) {
            float d = a.d_sum[row * a.channels + channel];
            UNROLL
            for (int k = 0; k < CONV_TAPS_MAX; k++) {
                int64_t back = a.taps - 1 - k;
                bool is_there = k < a.taps && back <= row % a.seq;
                if (is_there) sums[k] += d * load(a.x, (row - back) * a.channels + channel);
            }
            sums[CONV_TAPS_MAX] += d;
        }
        float *to = a.partial + chunk * (a.taps + 1) * a.channels + channel;
        UNROLL
        for (int k = 0; k < CONV_TAPS_MAX; k++) {
            if (k < a.taps) to[k * a.channels] = sums[k];
        }
        to[a.taps * a.channels] = sums[CONV_TAPS_MAX];
    }
}

KERNEL(conv_chunks, struct conv_args, a)
{
    int64_t tokens = a.batch * a.seq, chunks = (tokens + CONV_CHUNK - 1) / CONV_CHUNK;
    int64_t each = (a.taps + 1) * a.channels;
    for (int64_t i = INDEX; i < each; i += INDICES) {
        int64_t tap = i / a.channels, channel = i % a.channels;
        float sum = 0;
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            sum += a.partial[chunk * each + i];
        if (tap < a.taps) store_sum(a.d_weight, channel * a.taps + tap, a.adds_weight, sum);
        if (tap == a.taps && a.d_bias.data) store_sum(a.d_bias, channel, a.adds_bias, sum);
    }
}

void kernel_conv_backward(struct CUstream_st *stream, const struct conv_args *args)
{
    int64_t tokens = args->batch * args->seq, count = tokens * args->channels;
    int64_t chunks = (tokens + CONV_CHUNK - 1) / CONV_CHUNK;
    LAUNCH(conv_slopes, *args, blocks_for(count, THREADS), THREADS, stream);
    LAUNCH(conv_inputs, *args, blocks_for(count, THREADS), THREADS, stream);
    LAUNCH(conv_weights, *args, blocks_for(chunks * args->channels, THREADS), THREADS, stream);
    LAUNCH(conv_chunks, *args, blocks_for((args->taps + 1) * args->channels, THREADS), THREADS,
           stream);
}
