#pragma once
#include "executor/cpu/cpu.h"

// Words index .. index + count - 1 of the random stream of a key (random_word), many at a time.
void cpu_random_words(uint64_t key, uint64_t index, int64_t count, uint32_t *words);

// A word at or above this keeps its element (random_keeps). A ratio is below 1, so that it fits.
static inline uint32_t dropout_threshold(double ratio)
{
    double threshold = ratio * 4294967296.0;
    uint32_t whole = (uint32_t)threshold;
    return whole + ((double)whole < threshold);
}
