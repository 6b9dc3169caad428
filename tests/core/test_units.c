#include "core/units.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

static void seconds_get_the_unit_that_fits(void **state)
{
    assert_string_equal(units_seconds(*state, 18.128), "18.13 s");
    assert_string_equal(units_seconds(*state, 1.8412), "1.84 s");
    assert_string_equal(units_seconds(*state, 0.00421), "4.21 ms");
    assert_string_equal(units_seconds(*state, 0.9996), "1.00 s");
    assert_string_equal(units_seconds(*state, 1.5e-6), "1.50 µs");
    assert_string_equal(units_seconds(*state, 400.2), "400 s");
    assert_string_equal(units_seconds(*state, 1800), "30.0 min");
    assert_string_equal(units_seconds(*state, 86400 * 31.34), "31.3 days");
    assert_string_equal(units_seconds(*state, 0), "0 s");
}

static void durations_keep_tenths(void **state)
{
    assert_string_equal(units_duration(*state, 98.8), "98.80 s");
    assert_string_equal(units_duration(*state, 690), "11.5 min");
    assert_string_equal(units_duration(*state, 2 * 3600), "2.0 h");
    assert_string_equal(units_duration(*state, 86400 * 153.94), "153.9 days");
    assert_string_equal(units_bytes(*state, 2449.0 * 0x1p40), "2,449 TiB");
    assert_string_equal(units_duration(*state, 86400 * 1481.62), "1,481.6 days");
    assert_string_equal(units_duration(*state, 86400 * 365.25 * 300), "300.0 years");
    assert_string_equal(units_duration(*state, INFINITY), "for ever");
}

static void sizes_and_rates_get_the_unit_that_fits(void **state)
{
    assert_string_equal(units_bytes(*state, 76450000000), "71.2 GiB");
    assert_string_equal(units_bytes(*state, 512), "512 B");
    assert_string_equal(units_bytes(*state, 1023.9 * 1024), "1.00 MiB");
    assert_string_equal(units_flop_per_s(*state, 3.12e15), "3.12 PFLOP/s");
    assert_string_equal(units_flop_per_s(*state, 999.7e12), "1.00 PFLOP/s");
    assert_string_equal(units_bytes_per_s(*state, 12.3e9), "12.3 GB/s");
}

static void counts_are_grouped_below_a_million(void **state)
{
    assert_string_equal(units_count(*state, 7), "7");
    assert_string_equal(units_count(*state, 1842), "1,842");
    assert_string_equal(units_count(*state, 16384), "16,384");
    assert_string_equal(units_count(*state, 1.2e6), "1.2 M");
    assert_string_equal(units_count(*state, 70e9), "70 B");
    assert_string_equal(units_count(*state, 1.008e12), "1.01 T");
    assert_string_equal(units_count(*state, 2.5), "2.5");
    assert_string_equal(units_counted(*state, 1, "token"), "1 token");
    assert_string_equal(units_counted(*state, 1.2e6, "token"), "1.2 M tokens");
    assert_string_equal(units_ratio(*state, 0.4312), "43.1 %");
    assert_string_equal(units_percent(*state, 0.4312), "43.1%");
    assert_string_equal(units_signed_percent(*state, 0.4312), "+43.1%");
    assert_string_equal(units_signed_percent(*state, -0.4312), "-43.1%");
    assert_string_equal(units_signed_percent(*state, -0.0004), "+0.0%");
}

static void numbers_are_read_as_people_type_them(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t whole = 0;
    double real = 0;
    assert_true(units_parse_i64("4096", "--x", 1, 10000, &whole, &err));
    assert_int_equal(whole, 4096);
    assert_true(units_parse_i64("2T", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, 2000000000000);
    assert_true(units_parse_i64("1.1M", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, 1100000);
    assert_true(units_parse_f64("1e12", "--x", &real, &err));
    assert_true(real == 1e12);
    assert_true(units_parse_f64("512k", "--x", &real, &err));
    assert_true(real == 512000);
    assert_true(units_parse_i64("16KiB", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, 16384);
    assert_true(units_parse_i64("1.5Gi", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, 3 << 29);
    assert_true(units_parse_i64("2TiB", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, (int64_t)2 << 40);
    assert_true(units_parse_i64("3B", "--x", 1, INT64_MAX, &whole, &err));
    assert_int_equal(whole, 3000000000);
}

static void check_refused(const char *text, const char *message)
{
    struct err err = {0};
    int64_t value = 77;
    assert_false(units_parse_i64(text, "--tp", 1, 8, &value, &err));
    assert_string_equal(err.text, message);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_int_equal(value, 77);
}

static void a_wrong_number_is_named(void **state)
{
    (void)state;
    check_refused("KiB", "--tp: expected a number such as 4096, 1e12 or 2T, found \"KiB\"");
    check_refused("4iB", "--tp: expected a number such as 4096, 1e12 or 2T, found \"4iB\"");
    check_refused("4kiB", "--tp: expected a number such as 4096, 1e12 or 2T, found \"4kiB\"");
    check_refused("abc", "--tp: expected a number such as 4096, 1e12 or 2T, found \"abc\"");
    check_refused("", "--tp: expected a number such as 4096, 1e12 or 2T, found \"\"");
    check_refused("0x10", "--tp: expected a number such as 4096, 1e12 or 2T, found \"0x10\"");
    check_refused(" 4", "--tp: expected a number such as 4096, 1e12 or 2T, found \" 4\"");
    check_refused("inf", "--tp: expected a number such as 4096, 1e12 or 2T, found \"inf\"");
    check_refused("1e3k", "--tp: expected a number such as 4096, 1e12 or 2T, found \"1e3k\"");
    check_refused("1.5", "--tp: expected a whole number, found \"1.5\"");
    check_refused("16", "--tp: must be between 1 and 8, found 16");
    check_refused("-1", "--tp: must be between 1 and 8, found -1");
    check_refused("1e300", "--tp: 1e300 is too large for a whole number");
}

static void the_shortest_decimal_reads_back_exactly(void **state)
{
    (void)state;
    char text[UNITS_NUMBER_BYTES];
    assert_string_equal(units_number(text, 0.1), "0.1");
    assert_string_equal(units_number(text, -0.0), "0");
    assert_string_equal(units_number(text, 450e9), "450000000000");
    assert_string_equal(units_number(text, 0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(units_number(text, 1e300), "1e+300");
    uint64_t seed = 42;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double value = 0;
        memcpy(&value, &seed, sizeof value);
        if (!isfinite(value)) continue;
        assert_true(strtod(units_number(text, value), NULL) == value);
    }
}

static void near_names_are_guessed_and_far_ones_not(void **state)
{
    (void)state;
    assert_int_equal(units_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(units_edit_distance("", "abc"), 3);
    struct units_guess guess = {.text = "latencys"};
    units_guess_offer(&guess, "bandwidth");
    assert_null(guess.best);
    units_guess_offer(&guess, "latency_s");
    units_guess_offer(&guess, "latencies");
    assert_string_equal(guess.best, "latency_s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_get_the_unit_that_fits),
        cmocka_unit_test(durations_keep_tenths),
        cmocka_unit_test(sizes_and_rates_get_the_unit_that_fits),
        cmocka_unit_test(counts_are_grouped_below_a_million),
        cmocka_unit_test(numbers_are_read_as_people_type_them),
        cmocka_unit_test(a_wrong_number_is_named),
        cmocka_unit_test(the_shortest_decimal_reads_back_exactly),
        cmocka_unit_test(near_names_are_guessed_and_far_ones_not),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
