#pragma once
#include <stdint.h>

// How GPUs add up the gradient of an operand that is repeated (executor/cuda/strided.c), for who
// runs and who prices it: a thread a number, unless there are few of these; then the turns of each
// are cut into pieces, whose sums, in fp32, another launch adds up.

enum { STRIDED_PIECE = 64, STRIDED_PIECES_MOST = 256, STRIDED_THREADS = 1 << 18 };

static inline int64_t strided_pieces(int64_t numbers, int64_t turns)
{
    int64_t pieces = turns / STRIDED_PIECE, most = numbers > 0 ? STRIDED_THREADS / numbers : 1;
    if (pieces > STRIDED_PIECES_MOST) pieces = STRIDED_PIECES_MOST;
    if (pieces > most) pieces = most;
    return pieces > 1 ? pieces : 1;
}

// Sums over rows, of columns by themselves: of so many rows by one thread each, and then of these.
static inline int64_t column_chunks(int64_t rows)
{
    enum { ROWS = 64, CHUNKS_MAX = 256 };
    int64_t chunks = (rows + ROWS - 1) / ROWS;
    return chunks < 1 ? 1 : chunks < CHUNKS_MAX ? chunks : CHUNKS_MAX;
}
