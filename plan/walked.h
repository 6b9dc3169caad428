#pragma once
#include <stdbool.h>
#include <stdint.h>

// How our CUDA back end computes backward of the delta rule (executor/cuda/delta.cu), for who runs
// it and for who prices it and counts its memory (cost_models/walked.h): token after token, a block
// for each pair of a sequence and a head, with states in memory. So many states are kept on the way
// forward that those between them can be made again, a stretch at a time.

struct token_walk {
    int64_t batch, seq, heads, groups, width, state;
};

enum { WALK_BYTES = 512 << 20 };  // of the pairs that run at a time, unless one needs more

// Tokens from a state that backward keeps to the next: about the root of their number, so that
// states that are kept and those between two of them are as many.
static inline int64_t scan_stride(int64_t seq)
{
    int64_t stride = 1;
    while (stride * stride < seq)
        stride++;
    return stride;
}

static inline int64_t walk_stretches(const struct token_walk *of)
{
    int64_t stride = scan_stride(of->seq);
    return (of->seq + stride - 1) / stride;
}

// Numbers in fp32 of one pair: states, their gradient, lengths, and sums of a token; and those with
// what each token says to keys and queries.
static inline int64_t walk_room(const struct token_walk *of)
{
    int64_t states = walk_stretches(of) + scan_stride(of->seq) + 2;
    return states * of->width * of->state + 2 * of->seq + 2 * of->width + 3 * of->state;
}
static inline int64_t walk_pair(const struct token_walk *of)
{
    return walk_room(of) + 2 * of->seq * of->state;
}

static inline int64_t walk_pairs(const struct token_walk *of)
{
    int64_t all = of->batch * of->heads, most = WALK_BYTES / (walk_pair(of) * 4);
    return most < 1 ? 1 : most < all ? most : all;
}

// With the sums over heads.
static inline int64_t walk_bytes(const struct token_walk *of)
{
    int64_t sums = of->batch * of->seq * of->groups * of->state;
    return 4 * (walk_pairs(of) * walk_pair(of) + 2 * sums + of->batch * of->heads);
}
