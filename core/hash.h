#pragma once
#include <stddef.h>
#include <stdint.h>

// What spreads keys over tables; no defence against anybody.
//
// hash_bytes: FNV-1a, 64 bits (Fowler, Noll, Vo), of names, and to tell files apart. Begin with
// HASH_START and go on with what is returned.
// hash_word: the same for keys of whole words: every bit of what is returned hangs on all of them.
// hash_mix: the finaliser of SplitMix64 (Steele, Lea, Flood 2014): one word to another, one to one;
// of a count in steps of HASH_STEP: random numbers.

#define HASH_START 0xcbf29ce484222325u
#define HASH_STEP 0x9e3779b97f4a7c15u

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * HASH_STEP;
    return hash ^ hash >> 32;
}

static inline uint64_t hash_mix(uint64_t word)
{
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}
