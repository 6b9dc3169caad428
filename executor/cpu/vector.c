#include "executor/cpu/vector.h"

#include "executor/cpu/sums.h"

FAST REAL vector_dot(int64_t count, const REAL *a, const REAL *b)
{
    return sum_of_products(count, a, b);
}

FAST void vector_add_times(int64_t count, REAL factor, const REAL *x, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] += factor * x[i];
}

FAST void vector_scale(int64_t count, REAL factor, REAL *x)
{
    VECTOR for (int64_t i = 0; i < count; i++) x[i] *= factor;
}
