#include "executor/straggler.h"
#include "tests/support/test.h"

#include <math.h>

// Who is slow, and from when on: steps of two seconds, so that 20 of them decide.

enum { RANKS = 6 };
static const int STAGES[RANKS] = {0, 0, 0, 0, 1, 2};
static const double STEP_S = 2;

// Steps [first, last] in which the ranks of the first stage work so long; what was news and when.
static struct straggler play(struct stragglers *of, int first, int last, const int64_t work_ns[4],
                             int *when)
{
    struct straggler news = {.rank = -1};
    int64_t all_ns[RANKS] = {work_ns[0], work_ns[1], work_ns[2], work_ns[3], 900, 5};
    for (int step = first; step <= last; step++) {
        struct straggler is = stragglers_take(of, step, all_ns, STEP_S);
        if (is.rank < 0) continue;
        assert_int_equal(news.rank, -1);
        news = is;
        *when = step;
    }
    return news;
}

// Of 100, 104, 96 the lower median is 100: 150 is 1.5 of it. Alone on a stage nobody is judged.
static void one_that_lasts_is_named_once(void **state)
{
    (void)state;
    static const int64_t EVEN[] = {100, 104, 102, 96}, SLOW[] = {100, 104, 150, 96};
    struct arena arena = {0};
    int when = 0;
    struct stragglers *of = stragglers_new(&arena, STAGES, NULL, RANKS);
    assert_int_equal(play(of, 1, 100, EVEN, &when).rank, -1);
    struct straggler found = play(of, 101, 300, SLOW, &when);
    assert_int_equal(found.rank, 2);
    assert_false(found.is_over);
    assert_int_equal(found.since_step, 101);
    assert_int_equal(when, 100 + STRAGGLER_STEPS);
    assert_true(found.ratio > 1.4999 && found.ratio < 1.5001);
    found = play(of, 301, 400, EVEN, &when);
    assert_int_equal(found.rank, 2);
    assert_true(found.is_over && when == 301 && found.since_step == 101);
    // One that becomes the fastest of all is not slow any more either.
    static const int64_t FAST[] = {100, 104, 90, 96};
    assert_int_equal(play(of, 401, 500, SLOW, &when).rank, 2);
    found = play(of, 501, 600, FAST, &when);
    assert_true(found.rank == 2 && found.is_over && when == 501);
    arena_free(&arena);
}

static void what_does_not_last_is_not(void **state)
{
    (void)state;
    static const int64_t EVEN[] = {100, 100, 100, 100}, SLOW[] = {100, 300, 100, 100},
                         LITTLE[] = {100, 119, 100, 100};
    struct arena arena = {0};
    int when = 0;
    struct stragglers *of = stragglers_new(&arena, STAGES, NULL, RANKS);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(play(of, 20 * i, 20 * i + 18, SLOW, &when).rank, -1);
        assert_int_equal(play(of, 20 * i + 19, 20 * i + 19, EVEN, &when).rank, -1);
    }
    assert_int_equal(play(of, 1000, 2000, LITTLE, &when).rank, -1);
    // Nor what is over before the seconds are.
    const int64_t works_ns[RANKS] = {100, 300, 100, 100, 1, 1};
    for (int i = 0; i < 4999; i++)
        assert_int_equal(stragglers_take(of, i, works_ns, 1e-3).rank, -1);
    // (4.999 s of them; the next step makes it more than five)
    assert_int_equal(stragglers_take(of, 5000, works_ns, 1e-2).rank, 1);
    arena_free(&arena);
}

// Two at once: one behind the other, the lower rank first. Of 300, 400, 100, 100 each has others
// whose lower median is 100.
static void two_are_both_named(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct stragglers *of = stragglers_new(&arena, STAGES, NULL, RANKS);
    const int64_t works_ns[RANKS] = {300, 100, 400, 100, 1, 1};
    for (int step = 1; step < STRAGGLER_STEPS; step++)
        assert_int_equal(stragglers_take(of, step, works_ns, STEP_S).rank, -1);
    struct straggler first = stragglers_take(of, 20, works_ns, STEP_S),
                     second = stragglers_take(of, 21, works_ns, STEP_S);
    assert_int_equal(first.rank, 0);
    assert_int_equal(second.rank, 2);
    assert_int_equal(second.since_step, 1);
    assert_int_equal(stragglers_take(of, 22, works_ns, STEP_S).rank, -1);
    arena_free(&arena);
}

// A pair: the slower of two, and never the faster.
static void of_two_the_slower_is_named(void **state)
{
    (void)state;
    static const int PAIR[] = {3, 3};
    struct arena arena = {0};
    struct stragglers *of = stragglers_new(&arena, PAIR, NULL, 2);
    const int64_t works_ns[] = {130, 100}, unknown_ns[] = {130, 0};
    int named = 0;
    for (int step = 1; step < 100; step++) {
        assert_int_equal(stragglers_take(of, step, unknown_ns, STEP_S).rank, -1);
        struct straggler is = stragglers_take(of, step, works_ns, STEP_S);
        assert_true(is.rank == -1 || is.rank == 0);
        named += is.rank == 0;
    }
    assert_int_equal(named, 1);
    arena_free(&arena);
}

// Stages of 10, 20, 30 and 40 predicted seconds, the second with two ranks. Beside 100, 200 and 390
// the third works 650 in place of 300: 650 / 30 is 2.17 times the lower median of 10, 10 and 9.75.
static void one_that_is_alone_is_held_against_what_is_predicted(void **state)
{
    (void)state;
    static const int FOUR[] = {0, 1, 1, 2, 3};
    static const double WORK_S[] = {10, 20, 30, 40};
    static const int64_t SLOW[] = {100, 200, 200, 650, 390}, FAST[] = {100, 200, 200, 590, 390};
    struct arena arena = {0};
    struct stragglers *of = stragglers_new(&arena, FOUR, WORK_S, 5);
    for (int step = 1; step <= 100; step++)
        assert_int_equal(stragglers_take(of, step, FAST, STEP_S).rank, -1);
    struct straggler found = {.rank = -1};
    for (int step = 101; step <= 100 + STRAGGLER_STEPS; step++) {
        assert_int_equal(found.rank, -1);
        found = stragglers_take(of, step, SLOW, STEP_S);
    }
    assert_int_equal(found.rank, 3);
    assert_true(found.is_alone && !found.is_over && found.since_step == 101);
    assert_true(fabs(found.ratio - 650.0 / 30 / 10) < 1e-9);
    found = stragglers_take(of, 200, FAST, STEP_S);
    assert_true(found.rank == 3 && found.is_over && found.is_alone);
    // Without what is predicted nobody is judged.
    of = stragglers_new(&arena, FOUR, NULL, 5);
    for (int step = 1; step <= 100; step++)
        assert_int_equal(stragglers_take(of, step, SLOW, STEP_S).rank, -1);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_lasts_is_named_once),
        cmocka_unit_test(what_does_not_last_is_not),
        cmocka_unit_test(two_are_both_named),
        cmocka_unit_test(of_two_the_slower_is_named),
        cmocka_unit_test(one_that_is_alone_is_held_against_what_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
