#include "tests/support/test.h"

#include "tests/support/run_case.h"

#include <string.h>

// --poison finds scripts whose offsets are wrong, and says where. They are broken behind the
// verifier's back: it would not let them run.

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 4}";
enum { SEQ = 8, BATCH = 4, BROKEN = 23 };  // a prime far from the count of a block's instructions

static struct run_case case_of(enum run_break broken, int number)
{
    struct run_case of = run_case_new(LLAMA, SEQ, BATCH);
    of.steps = 1;
    of.broken = broken;
    of.broken_number = number * BROKEN;
    return of;
}

static struct run_outcome *run(struct arena *arena, const struct run_case *of)
{
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, of, &err);
    assert_string_equal(err.text, "");
    return outcome;
}

static void a_right_script_is_clean(void **state)
{
    struct run_case of = case_of(BREAK_NOTHING, 0);
    assert_string_equal(run(*state, &of)->error, "");
}

static void reading_where_nothing_is_is_found(void **state)
{
    for (int i = 0; i < 16; i++) {
        struct run_case of = case_of(BREAK_READ, i);
        struct run_outcome *outcome = run(*state, &of);
        if (outcome->done || !strstr(outcome->error, "memory that holds nothing"))
            fail_msg("value %d: %s", of.broken_number, outcome->error);
    }
}

// Who reads it may find out before the guards do: what it reads instead is dead.
static void writing_outside_is_found(void **state)
{
    int guards = 0;
    for (int i = 0; i < 16; i++) {
        struct run_case of = case_of(BREAK_OUTSIDE, i);
        struct run_outcome *outcome = run(*state, &of);
        assert_false(outcome->done);
        guards += strstr(outcome->error, "something wrote outside the arena, behind it") != NULL;
    }
    assert_true(guards > 0);
}

// Nobody clears gradients: those that are added to before they are written are no numbers.
static void adding_to_a_gradient_that_is_not_there_is_found(void **state)
{
    for (int zero = 0; zero <= 3; zero++) {
        struct run_case of = case_of(BREAK_FIRST, 0);
        of.parallel.zero = zero;
        of.parallel.degree[AXIS_DP] = 2;
        for (of.broken_number = 0; of.broken_number < 16; of.broken_number += 5) {
            struct run_outcome *outcome = run(*state, &of);
            if (outcome->done || !strstr(outcome->error, "memory that holds nothing"))
                fail_msg("zero %d, gradient %d: %s", zero, of.broken_number, outcome->error);
        }
    }
}

static void without_poison_nobody_notices(void **state)
{
    struct run_case of = case_of(BREAK_READ, 1);
    of.poison = false;
    assert_true(run(*state, &of)->done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_script_is_clean),
        cmocka_unit_test(reading_where_nothing_is_is_found),
        cmocka_unit_test(writing_outside_is_found),
        cmocka_unit_test(adding_to_a_gradient_that_is_not_there_is_found),
        cmocka_unit_test(without_poison_nobody_notices),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
