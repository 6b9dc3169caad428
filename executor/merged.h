#pragma once
#include "executor/array.h"

// Calls of GEMMs that share their input as the calls of one GEMM (plan/lower/merged.h): operands
// that lie side by side are one array, whose dim DIM_FLAT goes through what the members have. Part
// of every plug-in, not of the binary.
//
// The GEMM comes first, with the weights of all, and
// - forward: with all results; behind it the sum of these and of all biases, if the group has them;
// - backward: with the gradients of all results; its own result is that of one member, and the sum
//   behind it has that in the place of what all made;
// - of weights: with all gradients, of results and of weights; behind it the gradients of all
//   biases, if the group has them.

enum { MERGED_CALLS = 2 };
extern const char MERGED_APART[];

// How many calls `folded` has; 0: the arrays of the group do not lie so, which is a fault of who
// made the group: MERGED_APART. Bytes of ELEMENT_COMPUTE and ELEMENT_FP32.
int merged_fold(const struct kernel_call *calls, int count, int64_t compute_bytes,
                int64_t real_bytes, struct kernel_call folded[MERGED_CALLS]);
