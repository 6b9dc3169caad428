#pragma once
#include <stdint.h>

// MT19937, started by one number (Matsumoto and Nishimura 1998, "Mersenne Twister"): what others
// have drawn by it can be drawn again. Our own draws are those of core/random.h.
struct mersenne {
    uint32_t words[624];
    int at;
};
void mersenne_start(struct mersenne *state, uint32_t seed);
uint32_t mersenne_bits(struct mersenne *state);

// The first 32 bits of the SHA-256 digest (FIPS 180-4) of a text.
uint32_t sha256_head(const char *text);
