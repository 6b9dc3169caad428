#include "core/divisor.h"
#include "tests/support/test.h"

// Against the definition, by trial of every number.
static void the_largest_and_the_least_are_found(void **state)
{
    (void)state;
    for (int64_t a = 1; a <= 40; a++) {
        for (int64_t b = 1; b <= 40; b++) {
            int64_t divisor = a, multiple = a;
            while (a % divisor || b % divisor)
                divisor--;
            while (multiple % b)
                multiple += a;
            assert_int_equal(common_divisor(a, b), divisor);
            assert_int_equal(common_multiple(a, b), multiple);
        }
        assert_int_equal(common_divisor(a, 0), a);
        assert_int_equal(common_divisor(0, a), a);
    }
    assert_true(common_multiple(3000000000, 2000000000) == 6000000000);
}

static void a_number_is_rounded_up_to_a_multiple(void **state)
{
    (void)state;
    for (int64_t value = 0; value <= 60; value++) {
        for (int64_t step = 1; step <= 20; step++) {
            int64_t multiple = 0;
            while (multiple < value)
                multiple += step;
            assert_int_equal(round_up(value, step), multiple);
        }
    }
    // No sum on the way is larger than the answer.
    assert_true(round_up(INT64_MAX - 1, INT64_MAX) == INT64_MAX);
    assert_true(round_up(INT64_MAX, INT64_MAX) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_and_the_least_are_found),
        cmocka_unit_test(a_number_is_rounded_up_to_a_multiple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
