#pragma once
#include "models/op_scan.h"

// The rules of OP_DELTA and its backward, for the table of models/op.c.
//
// OP_DELTA is the gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464, equation
// 10; of Kimi Linear, arXiv 2510.26692, equation 1, with a decay for each channel). Inputs v
// (batch, seq, head, head_dim), dt (batch, seq, head(, state)), k and q (batch, seq, kv_head,
// state), A_log (head) and beta (batch, seq, head); of each head, with its group's k and q and a
// state S of (head_dim, state) that starts as zeros:
//     S'(t) = S(t-1) exp(-exp(A_log) dt(t)), each channel of k by its own number where dt has one,
//     S(t) = S'(t) + beta(t) (v(t) - S'(t) k(t)) k(t)^T,   y(t) = S(t) q(t),
// where k stands for the input over its length, sqrt(|k|^2 + epsilon), and q for the same over
// sqrt(state); `scalar` of the op is epsilon.

// Sequences are whole, as those of a scan, and so are the channels of keys.
enum split op_delta_split(const struct block *block, const struct op *op, enum dim dim);
double op_delta_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);
// Forward flops of one token in all heads: each number of the state is read for the key, written
// and read for the query, by a multiplication and an addition.
double op_delta_model_flop(const struct block *block, const struct op *op);
// The GEMMs of its chunks (the same paper, section 3.3, equations 8 and 9: what the tokens of a
// chunk add to the state solves a triangular system), with those that backward does again.
int op_delta_gemms(const struct scan_shape *shape, bool is_forward,
                   struct scan_gemm gemms[SCAN_GEMM_MAX]);
