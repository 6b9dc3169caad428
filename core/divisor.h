#pragma once
#include <stdint.h>

// Whole numbers that divide others. Both of at least 0; the divisor of 0 and b is b.
int64_t common_divisor(int64_t a, int64_t b);
// Both of at least 1; the product of the two must fit.
int64_t common_multiple(int64_t a, int64_t b);

// The least multiple of `step` that is no less than `value`, which is at least 0.
static inline int64_t round_up(int64_t value, int64_t step)
{
    int64_t over = value % step;
    return over ? value + (step - over) : value;
}
