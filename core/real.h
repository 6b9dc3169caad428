#pragma once

// Functions of which the C library of one machine gives another last bit than that of the next:
// glibc's pow has a path for processors with fused multiply-add that differs in one of a thousand
// results, and its cbrt is another than musl's. What is searched, priced or written as JSON uses
// these, so that equal inputs give equal bytes everywhere, in a page as well. They are made of
// operations that IEEE 754 rounds in one way alone (+ - * / sqrt), compiled without contraction,
// and are within 4 units in the last place where |log(result)| < 2, within 1e-13 of the value else.

// e^x and e^x - 1, INFINITY past the range of a double; log of a positive normal number.
double real_exp(double x);
double real_expm1(double x);
double real_log(double x);
// base^exponent of a positive normal base, or of 0 with a positive exponent.
double real_power(double base, double exponent);
// The same by repeated squaring: base of either sign, count >= 0.
double real_power_int(double base, int count);
double real_cube_root(double x);  // of a normal number or 0
// Share of the standard normal distribution below x, within 2e-15; x not NaN.
double real_normal_ratio(double x);
// The smallest n >= 0 with 2^n >= count; count < 2^1023.
int real_log2_ceil(double count);
