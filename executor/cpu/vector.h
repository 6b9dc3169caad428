#pragma once
#include "executor/cpu/cpu.h"

// Rows of numbers, of which kernels of attention and updates make and take many.

// The sum of products, by lanes (executor/cpu/sums.h).
REAL vector_dot(int64_t count, const REAL *a, const REAL *b);
// y += factor * x
void vector_add_times(int64_t count, REAL factor, const REAL *x, REAL *y);
void vector_scale(int64_t count, REAL factor, REAL *x);
