#pragma once
#include "executor/cuda/kernels.h"
#include "plan/pair_sums.h"

// Of the device code (executor/cuda/kernels.h) lookups of pairs (executor/lookup_call.h).

#ifdef __cplusplus
extern "C" {
#endif

// Dims in an order of their own, with what a step along each skips of ids, table and rows.
struct pair_dims {
    int rank;
    int64_t count, sizes[WALK_DIMS], ids[WALK_DIMS], table[WALK_DIMS], rows[WALK_DIMS];
};
struct pairs_args {
    struct pair_dims all;              // as rows have them
    struct pair_dims columns, walked;  // backward: those of the table, as it has them; the others
    int64_t row, whole;                // the stride of the table's rows, and how many there are
    bool adds;
    const int64_t *ids;
    struct reals rows, table;
    int *fault;  // set when the table lacks an id
};
void kernel_pairs(struct CUstream_st *stream, const struct pairs_args *args);
void kernel_pairs_backward(struct CUstream_st *stream, const struct pairs_args *args);

#ifdef __cplusplus
}
#endif
