#include "executor/cpu/random_words.h"

// As random_at of executor/random.h, for counters side by side.

enum { COUNTERS = 16 };

// Words 4 * first .. 4 * (first + COUNTERS) - 1.
FAST static void draw_counters(uint64_t key, uint64_t first, uint32_t *words)
{
    uint32_t c0[COUNTERS], c1[COUNTERS], c2[COUNTERS], c3[COUNTERS];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < COUNTERS; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        VECTOR for (int i = 0; i < COUNTERS; i++)
        {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
    }
    for (int i = 0; i < COUNTERS; i++) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

void cpu_random_words(uint64_t key, uint64_t index, int64_t count, uint32_t *words)
{
    uint32_t drawn[4 * COUNTERS];
    while (count > 0) {
        int64_t skipped = (int64_t)(index % 4), left = 4 * COUNTERS - skipped;
        int64_t taken = count < left ? count : left;
        draw_counters(key, index / 4, drawn);
        for (int64_t i = 0; i < taken; i++)
            words[i] = drawn[skipped + i];
        words += taken;
        index += (uint64_t)taken;
        count -= taken;
    }
}
