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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_and_the_least_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
