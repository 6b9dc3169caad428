#include "tests/support/test.h"
#include "validation/band_unfitted.h"

#include <string.h>

enum { ROWS_MAX = 32 };

struct case_rows {
    struct row rows[ROWS_MAX];
    struct trial trials[ROWS_MAX];
    int count;
};

// A run that took `ratio` times what was predicted.
static void add(struct case_rows *all, const char *software, double ratio)
{
    struct row *row = &all->rows[all->count];
    struct trial *trial = &all->trials[all->count++];
    *row = (struct row){.tier = 'A', .stack = "other", .stack_then = "other", .step_s = ratio};
    row->facts.software = software;
    *trial = (struct trial){.row = row, .answered = true};
    trial->prediction.step_s = 1;
}

static struct anchored_band band_of(struct arena *arena, struct case_rows *all)
{
    struct trials trials = {.items = all->trials, .count = all->count};
    return band_unfitted_make(arena, &trials, "A", "a test");
}

// Of 20 runs the 5th and the 95th percentile are the first and the 19th.
static void one_software_gives_its_percentiles(void **state)
{
    struct case_rows all = {0};
    for (int i = 0; i < 20; i++)
        add(&all, "alone", 0.91 + 0.01 * i);
    struct anchored_band band = band_of(*state, &all);
    assert_int_equal(band.row_count, 20);
    assert_int_equal(band.family_count, 1);
    assert_float_equal(band.low_ratio, 0.91, 2e-3);
    assert_float_equal(band.high_ratio, 1.09, 2e-3);
}

// One run of another software weighs as much as all twenty of the first: the low end is its own.
static void softwares_weigh_alike(void **state)
{
    struct case_rows all = {0};
    for (int i = 0; i < 20; i++)
        add(&all, "many", 1);
    add(&all, "one", 0.5);
    struct anchored_band band = band_of(*state, &all);
    assert_int_equal(band.family_count, 2);
    assert_float_equal(band.low_ratio, 0.5, 1e-9);
    assert_float_equal(band.high_ratio, 1, 1e-9);
}

// Two of twenty-four runs take twice as long: of runs more than a twentieth, of softwares less.
static void many_runs_of_one_software_are_one_software(void **state)
{
    struct case_rows all = {0};
    for (int i = 0; i < 24; i++)
        add(&all, "many", i < 2 ? 2 : 1);
    add(&all, "one", 1);
    struct anchored_band band = band_of(*state, &all);
    assert_float_equal(band.low_ratio, 1, 1e-9);
    assert_float_equal(band.high_ratio, 1, 1e-9);
}

// Two softwares of ten runs each, and one that publishes what was reserved.
static void memory_of_unseen_software_has_its_band(void **state)
{
    struct case_rows all = {0};
    for (int i = 0; i < 20; i++) {
        add(&all, i % 2 ? "one" : "two", 1);
        all.rows[i].allocated = true;
        all.rows[i].peak_bytes = 0.9e9 + 0.01e9 * i;
        all.trials[i].prediction.peak_bytes = 1000000000;
    }
    add(&all, "three", 1);
    all.rows[20].peak_bytes = 5e9;
    all.trials[20].prediction.peak_bytes = 1000000000;
    struct trials trials = {.items = all.trials, .count = all.count};
    struct memory_band band = band_unfitted_memory(*state, &trials, "A", "a test");
    assert_string_equal(band.stack, MEMORY_OF_ANY);
    assert_int_equal(band.row_count, 20);
    assert_int_equal(band.family_count, 2);
    assert_float_equal(band.low_ratio, 0.9, 2e-3);
    assert_float_equal(band.high_ratio, 1.08, 2e-3);
}

static void runs_of_stacks_that_are_their_own_say_nothing(void **state)
{
    struct case_rows all = {0};
    add(&all, "known", 3);
    all.rows[0].stack_then = NULL;
    assert_int_equal(band_of(*state, &all).row_count, 0);
    add(&all, "unknown", 1.2);
    all.rows[1].tier = 'B';
    assert_int_equal(band_of(*state, &all).row_count, 0);
}

static void bands_of_unfitted_software_are_no_narrower(void **state)
{
    struct err err = {0};
    const struct bands *shipped = bands_load(*state, &err);
    assert_string_equal(err.text, "");
    struct bands bands = *shipped;
    bands.unfitted = (struct anchored_band){.low_ratio = 0.7,
                                            .high_ratio = 1.15,
                                            .row_count = 3,
                                            .family_count = 2,
                                            .source = "a test"};
    const struct bands *wide = bands_unfitted(*state, &bands);
    assert_int_equal(wide->count, bands.count);
    for (int i = 0; i < bands.count; i++) {
        const struct band *was = &bands.rows[i], *is = &wide->rows[i];
        assert_true(is->low_ratio <= 0.7 && is->low_ratio <= was->low_ratio);
        assert_true(is->high_ratio >= 1.15 && is->high_ratio >= was->high_ratio);
        assert_true(is->high_ratio == was->high_ratio || is->high_ratio == 1.15);
        assert_true(wide->selected[i].low_ratio <= is->low_ratio);
    }
    bands.unfitted.row_count = 0;
    assert_ptr_equal(bands_unfitted(*state, &bands), &bands);
}

static void stacks_say_whether_a_run_was_fitted(void **state)
{
    static const struct {
        const char *name;
        bool is_fitted;
    } CASES[] = {{"megatron-core", true}, {"nanotron", true}, {"eager", false}, {"xla", false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        const struct stack *stack = stack_load(*state, CASES[i].name, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(stack_is_fitted(stack), CASES[i].is_fitted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_software_gives_its_percentiles),
        cmocka_unit_test(softwares_weigh_alike),
        cmocka_unit_test(many_runs_of_one_software_are_one_software),
        cmocka_unit_test(memory_of_unseen_software_has_its_band),
        cmocka_unit_test(runs_of_stacks_that_are_their_own_say_nothing),
        cmocka_unit_test(bands_of_unfitted_software_are_no_narrower),
        cmocka_unit_test(stacks_say_whether_a_run_was_fitted),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
