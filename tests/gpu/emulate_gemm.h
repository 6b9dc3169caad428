#pragma once
#include "executor/cuda/cuda.h"

// Products of the emulation: plain loops.

// NULL, or what cuBLASLt refuses in it.
const char *emulate_check_gemm(const struct cuda_gemm *gemm);
// Sums in doubles; split into several parts, which are rounded to fp32 each (to the number of c
// with `is_narrow`) and added up in rising order, or falling.
struct emulate_split {
    int parts;
    bool is_narrow, is_falling;
};
void emulate_gemm(const struct cuda_gemm *gemm, struct emulate_split split);
