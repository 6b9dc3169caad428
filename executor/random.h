#pragma once
#include <math.h>
#include <stdint.h>

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11):
// 128 random bits of a counter and a key. Header-only: weights, data and dropout of every back end
// (plug-ins and CUDA too) draw from it by (key, index in the whole), so that no plan changes them.
// Device code says what its functions are by RANDOM_FUNCTION.

#ifndef RANDOM_FUNCTION
#define RANDOM_FUNCTION static inline
#endif

struct random_bits {
    uint32_t word[4];
};

RANDOM_FUNCTION struct random_bits random_at(uint64_t key, uint64_t index)
{
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1,
                            (uint32_t)(p0 >> 32) ^ c[3] ^ k[1], (uint32_t)p0};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    struct random_bits bits = {{c[0], c[1], c[2], c[3]}};
    return bits;
}

// In [0, 1), 32 bits of it.
RANDOM_FUNCTION double random_unit(struct random_bits bits)
{
    return bits.word[0] * (1.0 / 4294967296.0);
}

// Word `index` of the stream of a key, four to a counter; and whether dropout keeps an element. Of
// attention's probabilities the index is that in (batch, head, seq, kv_seq), whole but for batch,
// which counts the step's sequences; of any tensor it is row-major over its dims likewise.
RANDOM_FUNCTION uint32_t random_word(uint64_t key, uint64_t index)
{
    // By choice, not by index: device code would keep the words in memory for it.
    struct random_bits bits = random_at(key, index / 4);
    uint32_t even = index & 2 ? bits.word[2] : bits.word[0];
    uint32_t odd = index & 2 ? bits.word[3] : bits.word[1];
    return index & 1 ? odd : even;
}
RANDOM_FUNCTION int random_keeps(uint64_t key, uint64_t index, double dropout_ratio)
{
    return random_word(key, index) >= dropout_ratio * 4294967296.0;
}

// Standard normal (Box and Muller 1958).
RANDOM_FUNCTION double random_normal(struct random_bits bits)
{
    double u = (bits.word[0] + 0.5) * (1.0 / 4294967296.0);
    double v = (bits.word[1] + 0.5) * (1.0 / 4294967296.0);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

// A key of parts: seed, name, step, ... (splitmix64 over each, Steele et al. 2014).
RANDOM_FUNCTION uint64_t random_key(uint64_t key, uint64_t part)
{
    uint64_t z = key + 0x9E3779B97F4A7C15u * (part + 1);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
RANDOM_FUNCTION uint64_t random_key_text(uint64_t key, const char *text)
{
    for (; *text; text++)
        key = random_key(key, (unsigned char)*text);
    return key;
}
