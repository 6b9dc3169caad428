#pragma once
#include "executor/cuda/cuda.h"

// One call of attention as both of its ways see it: attention.c, with scores in memory, and
// attention_fused.c.

struct cuda_attend {
    const struct run *run;
    const struct op *op;
    int64_t batch_count, queries, keys, heads, kv_heads, width, value_width;
    int64_t q_stride, k_stride, v_stride;      // of positions
    int64_t first_query, first_key;            // places in the whole
    int64_t first_head, first_kv_head, group;  // heads of the whole that share a key head
    struct reals q, k, v, sink;
    struct reals chosen;  // (batch, seq, chosen); data NULL: all keys are attended to
    int64_t chosen_count;
    int number;  // of probabilities
    bool has_sink;
};

// Of backward.
struct attend_gradients {
    struct reals d, out, lse, d_q, d_k, d_v;
    struct reals k_sum, v_sum;  // with scores in memory: in fp32, of all keys here
};

// Sums in fp32 of what parts say to gradients of keys or values, and from these to the gradients,
// which a ring or a caller may want added.
const char *cuda_begin_keys(const struct run *run, enum scratch scratch, int64_t elements,
                            struct reals *sum);
void cuda_end_keys(const struct run *run, int output, struct reals sum);

// NULL, or a fault; `is_done` false: it has to go the other way. Which way it goes, and why, is
// kept for the report.
const char *cuda_attend_fused(const struct cuda_attend *attend, bool *is_done);
// But for the gradient of sinks.
const char *cuda_attend_fused_backward(const struct cuda_attend *attend,
                                       const struct attend_gradients *gradients, bool *is_done);
