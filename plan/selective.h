#pragma once
#include <stdint.h>

// How our CUDA back end computes a scan with a decay for each number of a channel's state (Mamba-1;
// models/op_scan.h) and its backward, for who runs it (executor/cuda/scan.c) and for who prices it
// and counts its memory (cost_models/scan.c). C and C++.
//
// The sequence is cut into stretches, all of which are worked on at once. What each brings to the
// state is made first, from nothing; then a kernel passes states on from stretch to stretch, and
// backward their gradients from the last to the first; then each is walked through again, and
// backward, with the state it begins with. So forward makes the exponential of a number twice.
// Backward makes the states of a stretch again up to each of its shorter pieces, then those of a
// piece, which stay on the chip, and the decays once more on its way back.

struct selective_scan {
    int64_t batch, seq, channels, state;
};

enum {
    SELECTIVE_TOKENS = 32,  // of a stretch
    SELECTIVE_PIECE = 8,    // of these
    SELECTIVE_BACK_THREADS = 64,
    SELECTIVE_WARPS = SELECTIVE_BACK_THREADS / 32,
    // Parts of the channels, at most, each of which sums up by itself what is said to B and C.
    SELECTIVE_PARTS = 32,
    SELECTIVE_KERNELS = 3,
    SELECTIVE_BACKWARD_KERNELS = 4,
    // Exponentials of each number of the state at each token: of the stretch, and once more; or of
    // the stretch, of all its pieces but the last, and twice of each.
    SELECTIVE_EXPONENTIALS = 2,
    SELECTIVE_BACKWARD_EXPONENTIALS = 4,
    // Flops beside those of op_scan_flop: the state of the stretch once more; backward with what
    // its results say, twice, and half of the sums over a warp's channels.
    SELECTIVE_AGAIN = 5,
    SELECTIVE_BACKWARD_AGAIN = 20
};

static inline int64_t selective_stretches(const struct selective_scan *of)
{
    return (of->seq + SELECTIVE_TOKENS - 1) / SELECTIVE_TOKENS;
}
static inline int64_t selective_parts(const struct selective_scan *of)
{
    int64_t parts = (of->channels + SELECTIVE_BACK_THREADS - 1) / SELECTIVE_BACK_THREADS;
    return parts < SELECTIVE_PARTS ? parts : SELECTIVE_PARTS;
}

// Numbers in fp32 on the device: states in front of stretches, sums of their steps, and of each
// warp what it says to B, which are as many as to C.
static inline int64_t selective_states(const struct selective_scan *of)
{
    return of->batch * selective_stretches(of) * of->channels * of->state;
}
static inline int64_t selective_sums(const struct selective_scan *of)
{
    return of->batch * selective_stretches(of) * of->channels;
}
static inline int64_t selective_said(const struct selective_scan *of)
{
    return selective_parts(of) * SELECTIVE_WARPS * of->batch * of->seq * of->state;
}
static inline int64_t selective_room(const struct selective_scan *of, int is_backward)
{
    int64_t states = selective_states(of) + selective_sums(of);
    return is_backward ? states + selective_states(of) + 2 * selective_said(of) : states;
}

// Bytes that are moved beside one reading and writing of all arrays in `bytes` a number: states are
// written, passed on and read, backward their gradients as well and then what they say to A; x and
// steps are read twice, backward d_y too; sums of warps are written and read, as often as a part
// has turns, and B and C are read by each of them.
static inline double selective_bytes(const struct selective_scan *of, int is_backward, int bytes)
{
    double states = 4.0 * (double)selective_states(of), sums = 4.0 * (double)selective_sums(of);
    double numbers = (double)of->batch * (double)of->seq * (double)of->channels;
    if (!is_backward) return 4 * states + 2 * sums + 2 * numbers * bytes;
    int64_t each = selective_parts(of) * SELECTIVE_BACK_THREADS;
    double turns = (double)((of->channels + each - 1) / each);
    double said = 2 * 4.0 * (double)selective_said(of);
    return 10 * states + 5 * sums + 3 * numbers * bytes + 2 * turns * said;
}
