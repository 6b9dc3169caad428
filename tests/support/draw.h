#pragma once
// Random problems for tests that compare with brute force. The seed is printed, and may be given in
// MESHWRIGHT_SEED to run a failure again.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct draw {
    uint64_t state;
};

static inline uint64_t draw_bits(struct draw *draw)
{
    // SplitMix64 (Steele, Lea, Flood 2014).
    uint64_t z = draw->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int draw_int(struct draw *draw, int low, int high)
{
    return low + (int)(draw_bits(draw) % (uint64_t)(high - low + 1));
}

static inline struct draw draw_start(const char *what, uint64_t otherwise)
{
    const char *given = getenv("MESHWRIGHT_SEED");
    struct draw draw = {given ? strtoull(given, NULL, 10) : otherwise};
    printf("# %s: MESHWRIGHT_SEED=%llu\n", what, (unsigned long long)draw.state);
    return draw;
}

#define DRAW_ONE(draw, items) \
    (items)[draw_int((draw), 0, (int)(sizeof(items) / sizeof *(items)) - 1)]
