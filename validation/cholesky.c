#include "validation/cholesky.h"

#include <assert.h>
#include <math.h>

// A pivot below this share of its diagonal is rounding error.
static const double PIVOT_LEAST_RATIO = 1e-13;

// Only the lower triangle is read and written.
static bool factor(double *a, int count)
{
    for (int row = 0; row < count; row++) {
        for (int column = 0; column <= row; column++) {
            double sum = a[row * count + column];
            double least = PIVOT_LEAST_RATIO * sum;
            for (int i = 0; i < column; i++) {
                sum -= a[row * count + i] * a[column * count + i];
            }
            if (column < row) {
                a[row * count + column] = sum / a[column * count + column];
            } else if (sum > least && sum > 0) {
                a[row * count + row] = sqrt(sum);
            } else {
                return false;
            }
        }
    }
    return true;
}

// A = L L': forward through L, then back through its transpose, in place.
bool cholesky_solve(double *a, double *b, int count)
{
    assert(count >= 0);
    if (!factor(a, count)) return false;
    for (int row = 0; row < count; row++) {
        for (int i = 0; i < row; i++) {
            b[row] -= a[row * count + i] * b[i];
        }
        b[row] /= a[row * count + row];
    }
    for (int row = count - 1; row >= 0; row--) {
        for (int i = row + 1; i < count; i++) {
            b[row] -= a[i * count + row] * b[i];
        }
        b[row] /= a[row * count + row];
    }
    return true;
}
