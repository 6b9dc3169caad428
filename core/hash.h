#pragma once
#include <stddef.h>
#include <stdint.h>

// FNV-1a, 64 bits (Fowler, Noll, Vo): spreads names over tables and tells files apart; no defence
// against anybody. Begin with HASH_START and go on with what is returned.

#define HASH_START 0xcbf29ce484222325u

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}
