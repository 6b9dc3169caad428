#pragma once
#include <stdint.h>

// How our CUDA back end sums gradients of a lookup of pairs (executor/cuda/embedding.cu), for who
// runs it and for who prices it: a thread has a column of the table and goes through all that was
// looked up there, with sums of so many rows on the chip at a time.

enum { PAIR_ROWS = 256, PAIR_LANES = 32 };

static inline int64_t pair_passes(int64_t rows)
{
    return (rows + PAIR_ROWS - 1) / PAIR_ROWS;
}
