#include "core/real.h"

#include <assert.h>
#include <math.h>

// ln 2 as a sum: the product of the first part, which has 21 zero bits, and an exponent is exact.
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;
static const double LN2_INVERSE = 0x1.71547652b82fep+0, SQRT_HALF = 0x1.6a09e667f3bcdp-1;
static const double SQRT_2PI_INVERSE = 0x1.9884533d43651p-2;
// Past these e^x is no number or 0, one more or less makes no difference to it, and a normal
// variable is found with less than 1e-16.
static const double EXP_MOST = 709.7, EXP_LEAST = -745, EXP_ALONE = 40, NORMAL_MOST = 9;

// 1 / n! and 1 / (2 n + 1), from n = 1 on.
static const double EXP_TERMS[] = {1,
                                   1.0 / 2,
                                   1.0 / 6,
                                   1.0 / 24,
                                   1.0 / 120,
                                   1.0 / 720,
                                   1.0 / 5040,
                                   1.0 / 40320,
                                   1.0 / 362880,
                                   1.0 / 3628800,
                                   1.0 / 39916800,
                                   1.0 / 479001600,
                                   1.0 / 6227020800,
                                   1.0 / 87178291200};
static const double LOG_TERMS[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                   1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};
enum {
    EXP_COUNT = sizeof EXP_TERMS / sizeof *EXP_TERMS,
    LOG_COUNT = sizeof LOG_TERMS / sizeof *LOG_TERMS,
    ROOT_STEPS = 3
};

// log m = 2 atanh(s), s = (m - 1) / (m + 1), by its series; |s| < 0.172 where m lies between
// sqrt(1/2) and sqrt(2), so that the thirteenth term is below 2^-64 of the first.
double real_log(double x)
{
    assert(x >= 0x1p-1022 && x < INFINITY);
    int exponent = 0;
    double m = frexp(x, &exponent);
    if (m < SQRT_HALF) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int n = LOG_COUNT - 1; n >= 0; n--) {
        sum = square * (LOG_TERMS[n] + sum);
    }
    return exponent * LN2_HIGH + (2 * s + (2 * s * sum + exponent * LN2_LOW));
}

// e^x = 2^k e^r with |r| <= ln(2) / 2: k, and e^r - 1 by its series.
static int exp_parts(double x, double *rest)
{
    double k = floor(x * LN2_INVERSE + 0.5);
    double r = x - k * LN2_HIGH - k * LN2_LOW, sum = 0;
    for (int n = EXP_COUNT - 1; n >= 0; n--) {
        sum = r * (EXP_TERMS[n] + sum);
    }
    *rest = sum;
    return (int)k;
}

double real_exp(double x)
{
    double rest;
    if (x > EXP_MOST) return INFINITY;
    if (x < EXP_LEAST) return 0;
    int k = exp_parts(x, &rest);
    return ldexp(1 + rest, k);
}

double real_expm1(double x)
{
    double rest;
    if (fabs(x) > EXP_ALONE) return real_exp(x) - 1;
    int k = exp_parts(x, &rest);
    return ldexp(rest, k) + (ldexp(1, k) - 1);
}

// 1 / 2 + e^(-x^2 / 2) / sqrt(2 pi) (x + x^3 / 3 + x^5 / (3 * 5) + ...): Marsaglia (2004),
// "Evaluating the normal distribution", Journal of Statistical Software 11(4).
double real_normal_ratio(double x)
{
    if (fabs(x) > NORMAL_MOST) return x > 0;
    double sum = 0, term = x;
    for (int n = 3; sum + term != sum; n += 2) {
        sum += term;
        term *= x * x / n;
    }
    return 0.5 + sum * real_exp(-x * x / 2) * SQRT_2PI_INVERSE;
}

double real_power(double base, double exponent)
{
    if (base == 0) return 0;
    return base == 1 ? 1 : real_exp(exponent * real_log(base));
}

double real_power_int(double base, int count)
{
    assert(count >= 0);
    double power = 1;
    for (; count > 0; count >>= 1) {
        if (count & 1) power *= base;
        base *= base;
    }
    return power;
}

// Halley's iteration triples the right bits each time; the first guess, a line through m = 1/8 and
// m = 1, is within 12 %.
static double root_of(double m)
{
    double y = (3 + 4 * m) / 7;
    for (int i = 0; i < ROOT_STEPS; i++) {
        double cube = y * y * y;
        y += y * ((m - cube) / (2 * cube + m));
    }
    return y;
}

double real_cube_root(double x)
{
    if (x == 0) return x;
    int exponent = 0;
    double m = frexp(fabs(x), &exponent);
    while (exponent % 3 != 0) {
        m /= 2;
        exponent++;
    }
    return copysign(ldexp(root_of(m), exponent / 3), x);
}

int real_log2_ceil(double count)
{
    assert(count < 0x1p1023);
    int n = 0;
    while (ldexp(1, n) < count)
        n++;
    return n;
}
