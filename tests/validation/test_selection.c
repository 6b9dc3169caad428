#include "simulator/evaluate.h"
#include "tests/support/test.h"
#include "validation/band_remake.h"
#include "validation/selection.h"

#include <math.h>

static struct residual run(const char *family, const char *sweep, double measured_s,
                           double predicted_s)
{
    return (struct residual){.device = "d",
                             .stack = "s",
                             .kind = "dense",
                             .family = family,
                             .sweep = sweep,
                             .measured_s = measured_s,
                             .left_out_s = predicted_s,
                             .device_out_s = predicted_s};
}

// The plan predicted best takes 10 % longer than predicted, the other as long.
static void the_best_of_a_sweep_is_compared_with_its_mean(void **state)
{
    struct residual items[] = {run("a", "a1", 1.1, 1.0), run("a", "a1", 2.0, 2.0),
                               run("b", "b1", 1.1, 1.0), run("b", "b1", 2.0, 2.0)};
    struct residuals residuals = {items, 4};
    struct selection_band band = selection_make(*state, &residuals, "test");
    assert_int_equal(band.sweep_count, 2);
    assert_int_equal(band.family_count, 2);
    assert_true(fabs(band.mean_ratio - round(sqrt(1.1) * 1e4) / 1e4) < 1e-9);
    assert_true(band.error_ratio == 0);
}

static void families_weigh_alike_however_many_sweeps_they_have(void **state)
{
    struct residual items[] = {run("a", "a1", 1.21, 1.0), run("a", "a1", 2.0, 2.0),
                               run("a", "a2", 1.21, 1.0), run("a", "a2", 2.0, 2.0),
                               run("b", "b1", 1.0, 1.0),  run("b", "b1", 2.0, 2.0),
                               run("c", "c1", 5.0, 1.0)};
    struct residuals residuals = {items, 7};
    struct selection_band band = selection_make(*state, &residuals, "test");
    assert_int_equal(band.sweep_count, 3);
    assert_int_equal(band.family_count, 2);
    assert_true(fabs(band.mean_ratio - round(sqrt(1.1) * 1e4) / 1e4) < 1e-9);
    assert_true(band.error_ratio > 0.04 && band.error_ratio < 0.06);
}

static void of_equal_predictions_any_may_be_chosen(void **state)
{
    struct residual items[] = {run("a", "a1", 1.2, 1.0), run("a", "a1", 1 / 1.2, 1.0),
                               run("b", "b1", 1 / 1.2, 1.0), run("b", "b1", 1.2, 1.0)};
    struct residuals residuals = {items, 4};
    assert_true(fabs(selection_make(*state, &residuals, "test").mean_ratio - 1) < 1e-9);
}

static void one_family_says_nothing(void **state)
{
    struct residual items[] = {run("a", "a1", 1.2, 1.0), run("a", "a1", 2.0, 2.0)};
    struct residuals residuals = {items, 2};
    assert_int_equal(selection_make(*state, &residuals, "test").sweep_count, 0);
}

static struct trial *memory_trial(struct arena *arena, struct trial *trial, const char *stack,
                                  const char *family, double ratio)
{
    struct row *row = ARENA_NEW(arena, struct row, 1);
    row->stack = stack;
    row->family = family;
    row->tier = 'A';
    row->allocated = true;
    row->peak_bytes = 1e9 * ratio;
    *trial = (struct trial){.row = row, .answered = true};
    trial->prediction.peak_bytes = 1000000000;
    return trial;
}

static void memory_bands_reach_to_the_ends_and_one_family_is_no_narrower_than_several(void **state)
{
    struct trial items[6];
    memory_trial(*state, &items[0], "t", "f1", 1.03);
    memory_trial(*state, &items[1], "t", "f2", 0.97);
    memory_trial(*state, &items[2], "s", "f1", 1.001);
    memory_trial(*state, &items[3], "s", "f1", 0.999);
    memory_trial(*state, &items[4], "u", "f3", 1.4);
    memory_trial(*state, &items[5], "v", "f3", 9);
    items[5].answered = false;
    struct trials trials = {.items = items, .count = 6};
    int count = 0;
    struct memory_band *bands = memory_bands_make(*state, &trials, "A", "test", &count);
    assert_int_equal(count, 3);
    assert_string_equal(bands[0].stack, "s");
    assert_true(bands[0].low_ratio == 0.97 && bands[0].high_ratio == 1.03);
    assert_string_equal(bands[1].stack, "t");
    assert_int_equal(bands[1].family_count, 2);
    assert_true(bands[1].low_ratio == 0.97 && bands[1].high_ratio == 1.03);
    assert_true(bands[2].high_ratio == 1.4);
}

static const struct bands *shipped(struct arena *arena)
{
    struct err err = {0};
    const struct bands *bands = bands_load(arena, &err);
    assert_string_equal(err.text, "");
    return bands;
}

static void a_selected_plan_has_the_wider_band_of_its_row(void **state)
{
    const struct bands *bands = shipped(*state);
    assert_true(bands->selection.sweep_count > 10 && bands->selection.error_ratio > 0);
    for (int i = 0; i < bands->count; i++) {
        const struct band *own = &bands->rows[i], *wider = bands_selected(bands, own);
        assert_true(wider->low_ratio < own->low_ratio && wider->high_ratio > own->high_ratio);
        assert_string_equal(wider->source, own->source);
    }
    struct band row = {.low_ratio = 0.9, .high_ratio = 1.1};
    const struct bands bare = {.rows = &row, .count = 1};
    assert_ptr_equal(bands_selected(&bare, &row), &row);
}

static void a_stack_never_measured_takes_the_band_of_unseen_software(void **state)
{
    const struct bands *bands = shipped(*state);
    bool is_own = true;
    const struct memory_band *found = bands_memory(bands, "no-such-stack", &is_own);
    assert_non_null(found);
    assert_false(is_own);
    assert_string_equal(found->stack, MEMORY_OF_ANY);
    struct bands without = *bands;
    bands_put_memory_of_any(*state, &without, &(struct memory_band){0});
    assert_int_equal(without.memory_count, bands->memory_count - 1);
    const struct memory_band *widest = bands_memory(&without, "no-such-stack", &is_own);
    for (int i = 0; i < without.memory_count; i++)
        assert_true(without.memory[i].high_ratio <= widest->high_ratio);
    bands_put_memory_of_any(*state, &without, found);
    assert_int_equal(without.memory_count, bands->memory_count);
    assert_float_equal(bands_memory(&without, "no-such-stack", &is_own)->high_ratio,
                       found->high_ratio, 0);
    for (int i = 0; i < bands->memory_count; i++) {
        bool is_mine = false;
        assert_ptr_equal(bands_memory(bands, bands->memory[i].stack, &is_mine), &bands->memory[i]);
        assert_true(is_mine);
    }
    assert_null(bands_memory(&(struct bands){0}, "fsdp2", &is_own));
}

static void what_has_less_to_spare_than_memory_errs_fits_narrowly(void **state)
{
    (void)state;
    const struct memory_band band = {.high_ratio = 1.1};
    struct prediction prediction = {
        .peak_bytes = 70, .reserved_bytes = 80, .device_bytes = 100, .memory_band = &band};
    assert_int_equal(memory_fit(&prediction), MEMORY_FITS);
    prediction.reserved_bytes = 92;
    assert_int_equal(memory_fit(&prediction), MEMORY_FITS);
    prediction.reserved_bytes = 94;
    assert_int_equal(memory_fit(&prediction), MEMORY_FITS_NARROWLY);
    assert_string_equal(memory_fit_name(MEMORY_FITS_NARROWLY), "fits narrowly");
    prediction.reserved_bytes = 101;
    assert_int_equal(memory_fit(&prediction), MEMORY_LACKS);
    prediction.reserved_bytes = 99;
    prediction.memory_band = NULL;
    assert_int_equal(memory_fit(&prediction), MEMORY_FITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_a_sweep_is_compared_with_its_mean),
        cmocka_unit_test(families_weigh_alike_however_many_sweeps_they_have),
        cmocka_unit_test(of_equal_predictions_any_may_be_chosen),
        cmocka_unit_test(one_family_says_nothing),
        cmocka_unit_test(memory_bands_reach_to_the_ends_and_one_family_is_no_narrower_than_several),
        cmocka_unit_test(a_selected_plan_has_the_wider_band_of_its_row),
        cmocka_unit_test(a_stack_never_measured_takes_the_band_of_unseen_software),
        cmocka_unit_test(what_has_less_to_spare_than_memory_errs_fits_narrowly),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
