#pragma once
#include <stdint.h>

struct graph;
struct parallel;
struct workload;

// Where in its sequence a token stands that the layouts call the index-th. Layouts cut a sequence
// into consecutive slices; the zig-zag order (Dubey et al. 2024, arXiv 2407.21783, section 3.3.2)
// puts the sequence in another order before that: of 2 n half slices rank r has the r-th and then
// the one that is as far from the end, so that under a causal mask all ranks have equal work.
// Slices, collectives and memory know nothing of it; what goes by a token's place (data, positions,
// masks, random numbers) asks here. Within a rank places only rise.

struct sequence_order {
    int64_t half;   // tokens of a half slice; 0: slices are in order, and all below is the identity
    int64_t ranks;  // among which the sequence is split
};

// Place of the index-th token.
static inline int64_t sequence_place(const struct sequence_order *order, int64_t index)
{
    if (order->half == 0) return index;
    int64_t slice = index / order->half, rank = slice / 2;
    int64_t place = slice % 2 ? 2 * order->ranks - 1 - rank : rank;
    return place * order->half + index % order->half;
}

// Of `count` tokens from this one on those that stand behind one another in the sequence.
static inline int64_t sequence_together(const struct sequence_order *order, int64_t index,
                                        int64_t count)
{
    if (order->half == 0) return count;
    int64_t left = order->half - index % order->half;
    return left < count ? left : count;
}

// The order of a plan's sequences: zig-zag on the ring of context parallelism where the back end
// attends to halves (JOIN_HALVES), two of them for each rank divide the sequence, some causal
// attention sees all of it, and no operator wants its tokens in order (scans, convolutions, chosen
// keys, pooled entries, chunks, prefixes, scores written out, experts with a capacity). Price,
// memory and execution all ask this.
struct sequence_order sequence_order_of(const struct graph *graph, const struct workload *workload,
                                        const struct parallel *parallel, unsigned joins);
