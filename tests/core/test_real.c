#include "core/real.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static double uniform(uint64_t *state, double low, double high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 11) * 0x1p-53;
}

// The C library rounds most of its results right: where it is a unit off, so may the difference be.
static double units_apart(double found, double wanted)
{
    return fabs(found - wanted) / (nextafter(fabs(wanted), INFINITY) - fabs(wanted));
}

static void functions_are_those_of_the_c_library_but_for_the_last_bits(void **state)
{
    (void)state;
    uint64_t seed = 20261121;
    for (int i = 0; i < 200000; i++) {
        double x = uniform(&seed, -2, 2), y = uniform(&seed, -1, 1), wide = exp(100 * x);
        assert_true(units_apart(real_exp(x), exp(x)) <= 2);
        assert_true(units_apart(real_log(wide), log(wide)) <= 3);
        assert_true(units_apart(real_power(exp(x), y), pow(exp(x), y)) <= 4);
        assert_true(units_apart(real_cube_root(wide), cbrt(wide)) <= 4);
        assert_true(fabs(real_exp(300 * x) / exp(300 * x) - 1) < 1e-13);
        assert_true(units_apart(real_expm1(x), expm1(x)) <= 4);
        assert_true(units_apart(real_expm1(1e-6 * x), expm1(1e-6 * x)) <= 4);
        assert_true(fabs(real_expm1(100 * x) / expm1(100 * x) - 1) < 1e-13);
        assert_true(fabs(real_normal_ratio(4 * x) - 0.5 * erfc(-4 * x / sqrt(2))) < 2e-15);
    }
}

static void values_that_are_exact_are_met(void **state)
{
    (void)state;
    assert_true(real_exp(0) == 1);
    assert_true(real_exp(710) == INFINITY && real_exp(-746) == 0);
    assert_true(real_expm1(0) == 0 && real_expm1(-1000) == -1 && real_expm1(1000) == INFINITY);
    assert_true(real_normal_ratio(0) == 0.5);
    assert_true(real_normal_ratio(INFINITY) == 1 && real_normal_ratio(-INFINITY) == 0);
    assert_true(real_log(1) == 0);
    assert_true(real_power(0, 0.5) == 0);
    assert_true(real_power(1, 1e9) == 1);
    assert_true(real_power(7, 0) == 1);
    assert_true(real_power_int(-3, 5) == -243);
    assert_true(real_power_int(0, 0) == 1);
    assert_true(real_cube_root(0) == 0);
    assert_true(real_cube_root(-27) == -3);
    for (int i = 1; i < 100; i++) {
        assert_true(units_apart(real_cube_root((double)i * i * i), i) <= 1);
    }
}

static void the_next_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(real_log2_ceil(0.5), 0);
    assert_int_equal(real_log2_ceil(1), 0);
    assert_int_equal(real_log2_ceil(2), 1);
    assert_int_equal(real_log2_ceil(2.5), 2);
    for (int n = 2; n < 40; n++) {
        assert_int_equal(real_log2_ceil(ldexp(1, n)), n);
        assert_int_equal(real_log2_ceil(ldexp(1, n) - 1), n);
        assert_int_equal(real_log2_ceil(ldexp(1, n) + 1), n + 1);
    }
}

// A hash over the bits of many results: what every machine and compiler must give.
static void results_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    uint64_t seed = 1, hash = 14695981039346656037u;
    for (int i = 0; i < 100000; i++) {
        double x = uniform(&seed, -3, 3), y = uniform(&seed, 0.01, 50);
        const double results[] = {real_exp(x),      real_expm1(x),     real_log(y),
                                  real_power(y, x), real_cube_root(y), real_normal_ratio(x)};
        for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
            uint64_t bits;
            memcpy(&bits, &results[k], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
    }
    assert_true(hash == 4496462516602300147u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_those_of_the_c_library_but_for_the_last_bits),
        cmocka_unit_test(values_that_are_exact_are_met),
        cmocka_unit_test(the_next_power_of_two),
        cmocka_unit_test(results_have_the_same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
