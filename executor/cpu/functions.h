#pragma once
#include "executor/cpu/cpu.h"

#include <math.h>
#include <string.h>

// Functions of one number that compilers turn into vector code: no branches, no tables, no calls.
// All in the back end's real.
//
// exp: 2^n e^r with |r| <= ln 2 / 2 and the Taylor series of e^r, whose remainder is below half a
// unit in the last place (0.3466^8 / 8! = 5e-9, 0.3466^14 / 14! = 4e-18); relative error found over
// the whole range: 1.2e-7 (float), 3e-16 (double). Below the smallest normal number it is 0.

#define INLINE static inline __attribute__((always_inline))
#define CHOOSE(single, wide) ((REAL)(sizeof(REAL) == 4 ? (single) : (wide)))

union real_bits {
    REAL real;
#if defined(REAL_IS_DOUBLE)
    int64_t bits;
    uint64_t shifted;
#else
    int32_t bits;
    uint32_t shifted;
#endif
};

#if defined(REAL_IS_DOUBLE)
enum { REAL_MANTISSA = 52, REAL_BIAS = 1023 };
#else
enum { REAL_MANTISSA = 23, REAL_BIAS = 127 };
#endif

static const REAL REAL_ROUND = CHOOSE(12582912.0, 6755399441055744.0);  // 1.5 * 2^mantissa
static const REAL EXP_LOWEST = CHOOSE(-87.336544, -708.396418532264);
static const REAL EXP_HIGHEST = CHOOSE(88.37, 709.0);  // 2^n must be a number
static const REAL LOG2_E = (REAL)1.4426950408889634;
// ln 2 in two parts, of which the first has zeros at its end: n times it is exact.
static const REAL LN_2_HIGH = CHOOSE(0.693359375, 0.69314718036912381649);
static const REAL LN_2_LOW = CHOOSE(-2.12194440054690583e-4, 1.90821492927058770002e-10);

// e^r = 1 + r + r^2 q(r); returns q by Horner's rule.
INLINE REAL exp_series(REAL r)
{
    REAL q = (REAL)(sizeof(REAL) == 4 ? 1.0 / 5040 : 1.0 / 6227020800);
    if (sizeof(REAL) == 8) {
        q = q * r + (REAL)(1.0 / 479001600);
        q = q * r + (REAL)(1.0 / 39916800);
        q = q * r + (REAL)(1.0 / 3628800);
        q = q * r + (REAL)(1.0 / 362880);
        q = q * r + (REAL)(1.0 / 40320);
        q = q * r + (REAL)(1.0 / 5040);
    }
    q = q * r + (REAL)(1.0 / 720);
    q = q * r + (REAL)(1.0 / 120);
    q = q * r + (REAL)(1.0 / 24);
    q = q * r + (REAL)(1.0 / 6);
    return q * r + (REAL)0.5;
}

// x = n ln 2 + r; returns r and writes 2^n.
INLINE REAL exp_split(REAL x, REAL *power)
{
    union real_bits n = {.real = x * LOG2_E + REAL_ROUND}, round = {.real = REAL_ROUND}, two;
    REAL whole = n.real - REAL_ROUND;
    two.shifted = n.shifted - round.shifted + REAL_BIAS;  // of NaN too, whose bits may be any
    two.shifted <<= REAL_MANTISSA;
    *power = two.real;
    return (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
}

INLINE REAL real_exp(REAL x)
{
    REAL power, low = x < EXP_LOWEST ? EXP_LOWEST : x, held = low > EXP_HIGHEST ? EXP_HIGHEST : low;
    REAL r = exp_split(held, &power);
    REAL y = (1 + (r + r * r * exp_series(r))) * power;
    return x < EXP_LOWEST ? 0 : y;
}

// e^x - 1, right for small x too.
INLINE REAL real_expm1(REAL x)
{
    REAL power, low = x < -40 ? -40 : x, held = low > 40 ? 40 : low;
    REAL r = exp_split(held, &power);
    return (r + r * r * exp_series(r)) * power + (power - 1);
}

// Beyond 20 it is 1 in either precision.
INLINE REAL real_tanh(REAL x)
{
    REAL low = x < -20 ? -20 : x, e = real_expm1(2 * (low > 20 ? 20 : low));
    return e / (e + 2);
}

INLINE REAL real_sigmoid(REAL x)
{
    return 1 / (1 + real_exp(-x));
}

// log(1 + e^x), right at both ends.
INLINE REAL real_softplus(REAL x)
{
    REAL most = x > 0 ? x : 0, below = x > 0 ? -x : x;
    return most + (REAL)log1p((double)real_exp(below));
}

// The normal distribution, erfc(-x / sqrt 2) / 2. For z = |x| / sqrt 2 and t = 1 / (1 + 0.4 z),
// e^(z^2) erfc(z) is t times a polynomial of t: a least-squares fit of the relative error on 400
// Chebyshev nodes of z in 0 .. 9.5, where it is below 6.2e-8. Double calls the C library.
INLINE REAL real_normal(REAL x)
{
    if (sizeof(REAL) == 8) return (REAL)(0.5 * erfc(-(double)x * 0.7071067811865476));
    REAL z = (x < 0 ? -x : x) * (REAL)0.7071067811865476, t = 1 / (1 + (REAL)0.4 * z);
    REAL q = (REAL)0.04090798242227284;
    q = q * t - (REAL)0.13853475697983278;
    q = q * t + (REAL)0.08005351022490882;
    q = q * t + (REAL)0.092778884601569;
    q = q * t + (REAL)0.07618931121623441;
    q = q * t + (REAL)0.19502614742218874;
    q = q * t + (REAL)0.20143813977813244;
    q = q * t + (REAL)0.22651088572836675;
    q = q * t + (REAL)0.2256299571006319;
    REAL tail = (REAL)0.5 * q * t * real_exp(-z * z);
    return x < 0 ? tail : 1 - tail;
}

// executor/cpu/elementwise.c: y = f(x), and d_x = d f'(x), of one function of one number; NULL, or
// that there is no such kernel. Either result may take the place of what it is made from.
const char *cpu_function_values(enum function function, REAL scalar, int64_t count, const REAL *x,
                                REAL *y);
const char *cpu_function_slopes(enum function function, REAL scalar, int64_t count, const REAL *d,
                                const REAL *x, REAL *d_x);
