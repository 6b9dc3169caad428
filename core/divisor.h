#pragma once
#include <stdint.h>

// Whole numbers that divide others. Both of at least 0; the divisor of 0 and b is b.
int64_t common_divisor(int64_t a, int64_t b);
// Both of at least 1; the product of the two must fit.
int64_t common_multiple(int64_t a, int64_t b);

// What is left of `value`, at least 0, beside multiples of `step`: mostly a power of two, where
// nothing has to be divided.
static inline int64_t rest_of(int64_t value, int64_t step)
{
    return step & (step - 1) ? value % step : value & (step - 1);
}

// The least multiple of `step` that is no less than `value`, which is at least 0; the largest that
// is no more.
static inline int64_t round_up(int64_t value, int64_t step)
{
    int64_t over = rest_of(value, step);
    return over ? value + (step - over) : value;
}
static inline int64_t round_down(int64_t value, int64_t step)
{
    return value - rest_of(value, step);
}
