#pragma once
#include <stdbool.h>

// Solves A x = b for a symmetric positive definite A of `count` rows (row after row; only the lower
// half is read, and overwritten by its Cholesky factor; Golub and Van Loan, Matrix Computations,
// 4.2). `b` becomes x. False where A is not positive definite to rounding; then both are spoilt.
bool cholesky_solve(double *a, double *b, int count);
