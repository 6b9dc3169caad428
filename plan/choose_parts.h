#pragma once
#include <stdint.h>

// How our CUDA back end chooses keys (models/op_choose.h; executor/cuda/choose.c), for who runs it
// and who prices it and counts its memory: products of the heads of some queries and all keys, in
// fp32, and a kernel that adds them up over heads and chooses, a row of scores a query.

// Memory of the queries that are worked on at a time, unless one needs more; an emulation has less.
#if defined(CUDA_EMULATED)
enum { CHOOSE_BYTES = 16 << 10 };
#else
enum { CHOOSE_BYTES = 256 << 20 };
#endif

// In fp32: of each head, and of their sum.
static inline int64_t choose_query_bytes(int64_t heads, int64_t keys)
{
    return 4 * (heads + 1) * keys;
}
static inline int64_t choose_queries(int64_t queries, int64_t heads, int64_t keys)
{
    int64_t most = CHOOSE_BYTES / choose_query_bytes(heads, keys);
    return most < 1 ? 1 : most < queries ? most : queries;
}
