#pragma once
#include <stdbool.h>
#include <stdint.h>

// How our CUDA back end chooses keys (models/op_choose.h; executor/cuda/choose.c), for who runs it
// and who prices it and counts its memory: products of the heads of some queries and all keys, in
// fp32, and a kernel that adds them up over heads and chooses, a row of scores a query.

// Memory of the queries that are worked on at a time, unless one needs more; an emulation has less.
#if defined(CUDA_EMULATED)
enum { CHOOSE_BYTES = 16 << 10, ATTENDED_BYTES = 256 };
#else
enum { CHOOSE_BYTES = 256 << 20, ATTENDED_BYTES = 256 << 20 };
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

// How it attends to keys that were chosen (executor/cuda/attention_fused.c): to all that a query
// may see, with a number of 16 bits added to the scores of all heads, which leaves nothing of a key
// that was not chosen. Such numbers there are for some sequences at a time, or for some queries of
// one, in as much memory. Gradients of keys and values are then summed in fp32.
struct attended_part {
    int64_t sequences, queries;
};
static inline int64_t attended_row_bytes(int64_t keys)
{
    return (keys + 7) / 8 * 16;
}
static inline struct attended_part attended_part(int64_t sequences, int64_t queries, int64_t keys)
{
    int64_t most = ATTENDED_BYTES / attended_row_bytes(keys), whole = most / queries;
    if (whole < 1) return (struct attended_part){1, most < 8 ? 8 : most / 8 * 8};
    return (struct attended_part){whole < sequences ? whole : sequences, queries};
}
static inline int64_t attended_parts(int64_t sequences, int64_t queries, int64_t keys)
{
    struct attended_part part = attended_part(sequences, queries, keys);
    int64_t of_one = (queries + part.queries - 1) / part.queries;
    return (sequences + part.sequences - 1) / part.sequences * of_one;
}
// Backward, where queries of one sequence are apart: what one part says to its keys and values, in
// 16 bits, and the sums of all.
static inline int64_t attended_bytes(int64_t sequences, int64_t queries, int64_t keys,
                                     int64_t key_row, bool is_backward)
{
    struct attended_part part = attended_part(sequences, queries, keys);
    int64_t sums = is_backward && part.queries < queries ? keys * key_row : 0;
    return part.sequences * part.queries * attended_row_bytes(keys) + (2 + 4 * sequences) * sums;
}
