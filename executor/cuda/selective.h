#pragma once
#include "executor/cuda/kernels.h"
#include "plan/selective.h"

// Of the device code (executor/cuda/kernels.h) scans with a decay for each number of a channel's
// state (plan/selective.h).

#ifdef __cplusplus
extern "C" {
#endif

struct selective_args {
    int64_t batch, seq, channels, state, stretches, parts;
    // x, steps and results [batch][seq][channel], B and C [batch][seq][state], A [channel][state].
    struct reals x, dt, b, c, a_log, d, y;
    struct reals d_y, d_x, d_dt, d_b, d_c, d_a_log, d_d;  // backward
    bool adds_b, adds_c, adds_a_log, adds_d;
    // [batch][stretch][state][channel]: what stretches bring, then states in front of them, then
    // what these say to A; and gradients of the states behind them.
    float *states, *gradients;
    float *sums;             // [batch][stretch][channel]: of steps; then what is said to d
    float *part_b, *part_c;  // [part][warp][batch][seq][state]
};
// Three in a row, or four.
void kernel_selective(struct CUstream_st *stream, const struct selective_args *args);
void kernel_selective_backward(struct CUstream_st *stream, const struct selective_args *args);

#ifdef __cplusplus
}
#endif
