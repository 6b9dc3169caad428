#include "tests/support/test.h"

#include "plan/choice.h"
#include "planner/ranking.h"

// The order of plans, one thing at a time: the objective, the other one, the choices, the order of
// the axes, the layers of the stages.

static struct candidate plan_of(double step_s, int64_t bytes)
{
    struct candidate plan = {.cost.step_s = step_s, .memory.reserved_bytes = bytes};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        plan.parallel.degree[axis] = 1;
    parallel_default_order(&plan.parallel);
    return plan;
}

// Before the other by both objectives, and behind it the other way round.
static void comes_first(const struct candidate *first, const struct candidate *second)
{
    const enum objective objectives[] = {OBJECTIVE_TIME, OBJECTIVE_MEMORY};
    for (int i = 0; i < 2; i++) {
        assert_true(candidate_compare(objectives[i], first, second) < 0);
        assert_true(candidate_compare(objectives[i], second, first) > 0);
        assert_int_equal(candidate_compare(objectives[i], first, first), 0);
    }
}

static void the_objective_goes_before_the_other_one(void **state)
{
    (void)state;
    struct candidate quick = plan_of(1, 200), small = plan_of(2, 100);
    assert_true(candidate_compare(OBJECTIVE_TIME, &quick, &small) < 0);
    assert_true(candidate_compare(OBJECTIVE_TIME, &small, &quick) > 0);
    assert_true(candidate_compare(OBJECTIVE_MEMORY, &quick, &small) > 0);
    assert_true(candidate_compare(OBJECTIVE_MEMORY, &small, &quick) < 0);
    // Of equal ones the other decides, whatever the choices say.
    struct candidate other = plan_of(1, 199);
    other.parallel.degree[AXIS_DP] = 8;
    comes_first(&other, &quick);
    other = plan_of(0.5, 200);
    other.parallel.degree[AXIS_DP] = 8;
    comes_first(&other, &quick);
}

static void times_are_equal_to_the_nanosecond(void **state)
{
    (void)state;
    assert_int_equal(step_ns(1.5), 1500000000);
    assert_int_equal(step_ns(0.4e-9), 0);
    assert_int_equal(step_ns(0.6e-9), 1);
    struct candidate a = plan_of(1, 100), b = plan_of(1 + 0.4e-9, 100), c = plan_of(1 + 1e-9, 100);
    assert_int_equal(candidate_compare(OBJECTIVE_TIME, &a, &b), 0);
    comes_first(&a, &c);
}

// Every later choice, the order and the layers say the contrary.
static void of_equals_the_choices_decide_one_after_the_other(void **state)
{
    (void)state;
    static const int LAYERS[] = {9};
    for (int i = 0; i < CHOICE_COUNT; i++) {
        struct candidate first = plan_of(1, 100), second = plan_of(1, 100);
        for (int later = i; later < CHOICE_COUNT; later++) {
            choice_put(&first.parallel, (enum choice)later, later > i);
            choice_put(&second.parallel, (enum choice)later, later == i);
        }
        first.parallel.order[0]++;
        first.parallel.stage_layers_count = 1;
        first.parallel.stage_layers = LAYERS;
        comes_first(&first, &second);
    }
}

static void then_the_order_of_the_axes_and_the_layers(void **state)
{
    (void)state;
    static const int EVEN[] = {4, 4, 4}, LATE[] = {4, 4, 5}, LONG[] = {1, 1, 1, 1};
    struct candidate a = plan_of(1, 100), b = plan_of(1, 100);
    int last = a.parallel.order_count - 1;
    enum axis swapped = b.parallel.order[last];
    b.parallel.order[last] = b.parallel.order[0];
    b.parallel.order[0] = swapped;
    bool grows = b.parallel.order[0] > a.parallel.order[0];
    comes_first(grows ? &a : &b, grows ? &b : &a);
    b = a;
    b.parallel.order[last]++;
    comes_first(&a, &b);
    b = a;
    a.parallel.stage_layers_count = b.parallel.stage_layers_count = 3;
    a.parallel.stage_layers = EVEN;
    b.parallel.stage_layers = LATE;
    comes_first(&a, &b);
    b.parallel.stage_layers_count = 4;
    b.parallel.stage_layers = LONG;
    comes_first(&a, &b);
}

static void a_ranking_keeps_the_best_in_order(void **state)
{
    struct ranking ranking = ranking_new(*state, OBJECTIVE_TIME, 3);
    const double steps_s[] = {5, 3, 4, 6, 1, 4.5};
    const bool taken[] = {true, true, true, false, true, false};
    for (int i = 0; i < 6; i++) {
        struct candidate plan = plan_of(steps_s[i], 100);
        assert_int_equal(ranking_offer(&ranking, &plan), taken[i]);
        assert_int_equal(ranking.count, i < 3 ? i + 1 : 3);
    }
    assert_true(ranking.items[0].cost.step_s == 1);
    assert_true(ranking.items[1].cost.step_s == 3);
    assert_true(ranking.items[2].cost.step_s == 4);
    // One that is equal to the worst comes behind it, and has no place.
    struct candidate equal = plan_of(4, 100);
    assert_false(ranking_offer(&ranking, &equal));
}

static void what_may_be_taken_is_no_worse_than_the_worst(void **state)
{
    struct ranking by_time = ranking_new(*state, OBJECTIVE_TIME, 2);
    struct ranking by_memory = ranking_new(*state, OBJECTIVE_MEMORY, 2);
    assert_true(ranking_may_take(&by_time, 1e9, INT64_MAX));
    struct candidate plans[] = {plan_of(1, 500), plan_of(2, 400)};
    for (int i = 0; i < 2; i++) {
        assert_true(ranking_may_take(&by_time, 1e9, INT64_MAX));
        assert_true(ranking_offer(&by_time, &plans[i]) && ranking_offer(&by_memory, &plans[i]));
    }
    assert_true(ranking_may_take(&by_time, 2 + 0.4e-9, INT64_MAX));
    assert_false(ranking_may_take(&by_time, 2 + 1e-9, 0));
    assert_true(ranking_may_take(&by_memory, 1e9, 500));
    assert_false(ranking_may_take(&by_memory, 0, 501));
}

static void a_ranking_is_sorted_again(void **state)
{
    struct ranking ranking = ranking_new(*state, OBJECTIVE_TIME, 4);
    for (int i = 0; i < 4; i++) {
        struct candidate plan = plan_of(1 + i, 100);
        assert_true(ranking_offer(&ranking, &plan));
    }
    // As when events put other times in the place of the closed form's.
    ranking.items[0].cost.step_s = 9;
    ranking.items[3].cost.step_s = 2.5;
    ranking_sort(&ranking);
    const double sorted_s[] = {2, 2.5, 3, 9};
    for (int i = 0; i < 4; i++)
        assert_true(ranking.items[i].cost.step_s == sorted_s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_objective_goes_before_the_other_one),
        cmocka_unit_test(times_are_equal_to_the_nanosecond),
        cmocka_unit_test(of_equals_the_choices_decide_one_after_the_other),
        cmocka_unit_test(then_the_order_of_the_axes_and_the_layers),
        cmocka_unit_test(a_ranking_keeps_the_best_in_order),
        cmocka_unit_test(what_may_be_taken_is_no_worse_than_the_worst),
        cmocka_unit_test(a_ranking_is_sorted_again),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
