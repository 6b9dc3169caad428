#pragma once
#include "models/op.h"

// The rules of OP_CONV, OP_SCAN and their backward, for the table of models/op.c.
//
// OP_SCAN is the state-space recurrence of Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, equation 1
// and section 3.1: A is one number a head). Inputs x (batch, seq, head, head_dim), dt (batch, seq,
// head), B and C (batch, seq, kv_head, state), A_log and D (head); of each head, with its group's B
// and C and a state h of (head_dim, state) that starts as zeros:
//     h(t) = exp(-exp(A_log) dt(t)) h(t-1) + dt(t) x(t) B(t)^T,   y(t) = h(t) C(t) + D x(t).
// Groups are the kv heads of its heads: an axis on the heads splits them as far as they go. Mamba-1
// (Gu and Dao 2023, arXiv 2312.00752, algorithm 2) has a number of A for each of the state as well,
// A_log (head, state), heads that are one channel, x (batch, seq, head), and one group, B and C
// (batch, seq, state).
//
// A steady one takes steps of one by rates that are no logarithms, are the model's and not trained,
// and has no skip (lightning attention, Qin et al. 2024, arXiv 2401.04658, equation 5): inputs x,
// B, C and the rates (head), h(t) = exp(-rate) h(t-1) + x(t) B(t)^T, y(t) = h(t) C(t).

// Whether a token's result depends on tokens before it, so that no rank can have a part of a
// sequence alone, but of the heads.
static inline bool op_mixes_tokens(enum op_kind kind)
{
    return kind == OP_CONV || kind == OP_CONV_BACKWARD || kind == OP_SCAN ||
           kind == OP_SCAN_BACKWARD || kind == OP_DELTA || kind == OP_DELTA_BACKWARD;
}

// Sequences are whole in both: a state, or the last tokens, would have to come from the ranks in
// front. Channels are independent of each other.
enum split op_conv_split(const struct block *block, const struct op *op, enum dim dim);
enum split op_scan_split(const struct block *block, const struct op *op, enum dim dim);

double op_conv_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);
double op_scan_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);
// Forward flops of one token in all heads: each number of the state is written and read once, by a
// multiplication and an addition.
double op_scan_model_flop(const struct block *block, const struct op *op);

// What a scan is on one rank.
struct scan_shape {
    int64_t batch, seq, heads, groups, head_dim, state;
    int64_t chunk;  // no more than seq
};
// Whether it is a steady one, forward or backward, and where B (of the delta rule: keys) is
// among inputs.
static inline bool op_scan_is_steady(const struct op *op)
{
    enum { INPUTS = 4 };
    bool is_forward = op->kind == OP_SCAN, is_backward = op->kind == OP_SCAN_BACKWARD;
    return (is_forward || is_backward) && op->input_count == INPUTS + is_backward;
}
static inline int op_scan_b(const struct op *op)
{
    bool is_forward = op->kind == OP_SCAN || op->kind == OP_DELTA;
    return (op_scan_is_steady(op) ? 1 : 2) + !is_forward;
}
// Whether each number of a head's state has a decay of its own: then no products of matrices
// compute it, but a kernel that walks along the sequence.
bool op_scan_is_by_state(const struct block *block, const struct op *op);
// Numbers that all states have together at all tokens, each of which takes an exponential then.
double op_scan_numbers(const struct scan_shape *shape);
// The GEMMs as which chunks of the sequence are worked on (the same paper, section 6), of which
// `share` is computed: half of what a causal mask leaves half of. Returns how many there are.
enum { SCAN_GEMM_MAX = 28 };
struct scan_gemm {
    struct gemm gemm;
    double share;
};
int op_scan_gemms(const struct scan_shape *shape, bool is_forward,
                  struct scan_gemm gemms[SCAN_GEMM_MAX]);
// Chunks of all sequences; the last of one that they do not divide is padded, as kernels do.
int64_t op_scan_chunks(const struct scan_shape *shape);
// Numbers of the states between chunks.
int64_t op_scan_states(const struct scan_shape *shape);
// The shape of an op whose dims have these sizes.
struct scan_shape op_scan_shape(const struct op *op, const int64_t size[DIM_COUNT]);
// The work of that many of the GEMMs.
double op_scan_gemms_flop(const struct scan_gemm *gemms, int count);
