#include "executor/rate.h"
#include "executor/spikes.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// Learning rates against cases worked by hand, and which steps are out of line.

static void assert_rate(const struct rate_course *rate, int64_t step, double expected)
{
    assert_true(fabs(rate_at(rate, step) - expected) <= 1e-15);
}

static void a_constant_rate_is_one_after_its_warm_up(void **state)
{
    (void)state;
    struct rate_course rate = {.kind = RATE_CONSTANT, .peak = 0.5, .steps = 10, .warmup_steps = 4};
    assert_rate(&rate, 0, 0.125);
    assert_rate(&rate, 1, 0.25);
    assert_rate(&rate, 3, 0.5);
    assert_rate(&rate, 9, 0.5);
    assert_rate(&(struct rate_course){.peak = 0.25}, 7, 0.25);
}

static void a_linear_rate_reaches_the_least_in_the_last_step(void **state)
{
    (void)state;
    struct rate_course rate = {
        .kind = RATE_LINEAR, .peak = 1, .least = 0.2, .steps = 10, .warmup_steps = 2};
    assert_rate(&rate, 1, 1);
    assert_rate(&rate, 2, 0.9);  // an eighth of 0.8 less a step
    assert_rate(&rate, 5, 0.6);
    assert_rate(&rate, 9, 0.2);
    assert_rate(&rate, 20, 0.2);
}

// cos 0, 60, 90, 120 and 180 degrees.
static void a_cosine_goes_through_its_known_values(void **state)
{
    (void)state;
    struct rate_course rate = {.kind = RATE_COSINE, .peak = 1, .least = 0, .steps = 12};
    assert_rate(&rate, 3, 0.75);
    assert_rate(&rate, 5, 0.5);
    assert_rate(&rate, 7, 0.25);
    assert_rate(&rate, 11, 0);
    rate.least = 0.5;
    assert_rate(&rate, 3, 0.875);
    for (int step = 0; step < 12; step++)
        assert_rate(&rate, step, 0.75 + 0.25 * cos(3.14159265358979323846 * (step + 1) / 12));
}

static void wsd_is_stable_and_then_goes_down_by_the_root(void **state)
{
    (void)state;
    struct rate_course rate = {
        .kind = RATE_WSD, .peak = 2, .steps = 20, .warmup_steps = 2, .cooldown_steps = 4};
    assert_rate(&rate, 0, 1);
    assert_rate(&rate, 2, 2);
    assert_rate(&rate, 15, 2);
    assert_rate(&rate, 16, 1);  // a quarter over: 1 - 1/2
    assert_rate(&rate, 19, 0);
}

static void norms_out_of_line_are_spikes_after_25_steps(void **state)
{
    (void)state;
    struct spikes spikes = {0};
    assert_true(spikes_take(&spikes, 2.5, INFINITY));
    assert_true(spikes_take(&spikes, 2.5, NAN));
    assert_int_equal(spikes.count, 0);
    assert_false(spikes_take(&spikes, 2.5, 1000));  // nothing is known yet
    spikes = (struct spikes){0};
    for (int i = 0; i < 26; i++)
        assert_false(spikes_take(&spikes, 2.5, i % 2 ? 3 : 1));
    assert_true(fabs(spikes.mean - 2) < 0.1 && fabs(sqrt(spikes.variance) - 1) < 0.1);
    assert_false(spikes_take(&spikes, 2.5, 4));
    double mean = spikes.mean;
    assert_true(spikes_take(&spikes, 2.5, 100));
    assert_true(spikes.mean < mean + 0.1);
}

// A norm that stays ten times as high is not left out for ever.
static void a_new_level_becomes_the_rule(void **state)
{
    (void)state;
    struct spikes spikes = {0};
    struct draw draw = draw_start("norms", 1);
    int skipped = 0;
    for (int i = 0; i < 100; i++)
        (void)spikes_take(&spikes, 2.5, 1 + 0.01 * draw_int(&draw, 0, 10));
    for (int i = 0; i < 1000; i++)
        skipped += spikes_take(&spikes, 2.5, 10 + 0.1 * draw_int(&draw, 0, 10));
    assert_in_range(skipped, 1, 200);
    assert_false(spikes_take(&spikes, 2.5, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_rate_is_one_after_its_warm_up),
        cmocka_unit_test(a_linear_rate_reaches_the_least_in_the_last_step),
        cmocka_unit_test(a_cosine_goes_through_its_known_values),
        cmocka_unit_test(wsd_is_stable_and_then_goes_down_by_the_root),
        cmocka_unit_test(norms_out_of_line_are_spikes_after_25_steps),
        cmocka_unit_test(a_new_level_becomes_the_rule),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
