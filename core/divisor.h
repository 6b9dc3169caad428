#pragma once
#include <stdint.h>

// Whole numbers that divide others. Both of at least 0; the divisor of 0 and b is b.
int64_t common_divisor(int64_t a, int64_t b);
// Both of at least 1; the product of the two must fit.
int64_t common_multiple(int64_t a, int64_t b);
