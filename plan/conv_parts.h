#pragma once
#include <stdint.h>

// How our CUDA back end computes backward of the causal convolutions of scans
// (executor/cuda/conv.cu): the gradient of what the function was given, in fp32, and sums of each
// channel's taps and bias over so many tokens at a time, which another kernel adds up. For who runs
// it, and for who prices it and counts its memory.

enum { CONV_CHUNK = 64, CONV_BACKWARD_KERNELS = 4 };

static inline int64_t conv_sums(int64_t tokens, int64_t channels, int64_t taps)
{
    return (tokens + CONV_CHUNK - 1) / CONV_CHUNK * (taps + 1) * channels;
}
// Numbers in fp32.
static inline int64_t conv_room(int64_t tokens, int64_t channels, int64_t taps)
{
    return tokens * channels + conv_sums(tokens, channels, taps);
}
