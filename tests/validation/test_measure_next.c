#include "tests/support/test.h"
#include "validation/measure_next.h"

#include <math.h>

enum { PLANS = 2, TERMS = 3 };

// Two plans that are predicted alike. Products part them, memory moves both together, and of the
// third term nothing can be measured.
static struct measure_next two_plans(struct arena *arena, int wanted, uint64_t seed)
{
    static const double LN[PLANS] = {0, 0.001};
    static const double SLOPE[PLANS * TERMS] = {0.05, 0.2, 0.01, -0.05, 0.2, 0.01};
    static const enum measure_kind KIND[TERMS] = {MEASURE_PRODUCTS, MEASURE_MEMORY,
                                                  MEASURE_KIND_COUNT};
    struct measure_next next = {0};
    measure_choose(arena, LN, PLANS, SLOPE, KIND, TERMS, wanted, seed, &next);
    return next;
}

static void what_parts_the_plans_is_measured_before_what_matters_most(void **state)
{
    struct measure_next next = two_plans(*state, 3, 7);
    assert_int_equal(next.step_count, 2);
    assert_int_equal(next.steps[0].kind, MEASURE_PRODUCTS);
    assert_true(next.steps[0].lowers_regret);
    assert_int_equal(next.steps[1].kind, MEASURE_MEMORY);
    assert_false(next.steps[1].lowers_regret);
}

// The difference of the two is 0.001 less 0.1 of a normal number: of regret remains the part of it
// that is below 0, E[max(0, x)] of x of deviation 0.1, and three tenths of that deviation after.
static void regret_is_that_of_the_normal_distribution(void **state)
{
    struct measure_next next = two_plans(*state, 1, 7);
    double all = 0.1 / sqrt(2 * 3.14159265358979);
    assert_true(fabs(next.regret_ratio / all - 1) < 0.08);
    assert_true(next.steps[0].regret_ratio < 0.25 * next.regret_ratio);
    assert_true(fabs(next.spread_ratio - sqrt(0.05 * 0.05 + 0.2 * 0.2 + 0.01 * 0.01)) < 1e-12);
}

static void measuring_more_never_costs(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct measure_next next = two_plans(*state, 3, seed);
        double regret = next.regret_ratio, spread = next.spread_ratio;
        for (int i = 0; i < next.step_count; i++) {
            assert_true(next.steps[i].regret_ratio <= regret);
            assert_true(next.steps[i].spread_ratio < spread);
            regret = next.steps[i].regret_ratio;
            spread = next.steps[i].spread_ratio;
        }
    }
}

static void equal_seeds_give_equal_answers(void **state)
{
    struct measure_next one = two_plans(*state, 2, 3), other = two_plans(*state, 2, 3);
    assert_true(one.regret_ratio == other.regret_ratio);
    assert_true(one.steps[1].regret_ratio == other.steps[1].regret_ratio);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_parts_the_plans_is_measured_before_what_matters_most),
        cmocka_unit_test(regret_is_that_of_the_normal_distribution),
        cmocka_unit_test(measuring_more_never_costs),
        cmocka_unit_test(equal_seeds_give_equal_answers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
