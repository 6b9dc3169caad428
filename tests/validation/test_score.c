#include "tests/support/test.h"
#include "validation/headline.h"
#include "validation/left_out.h"
#include "validation/ranking.h"
#include "validation/score.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static void assert_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-12) fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static void errors_are_counted_as_by_hand(void **state)
{
    (void)state;
    // Errors +10 %, -20 %, 0, +50 %; one failure; one row without a measurement.
    const struct estimate estimates[] = {
        {10, 11, 9, 12}, {10, 8, 7, 9}, {2, 2, 0, 0}, {4, 6, 4, 8}, {3, 0, 0, 0}, {0, 5, 4, 6},
    };
    struct score score = score_of(estimates, 6);
    assert_int_equal(score.row_count, 4);
    assert_int_equal(score.failure_count, 1);
    assert_near(score.mape, 0.2);
    assert_near(score.bias, 0.1);
    assert_near(score.median, 0.15);
    assert_near(score.p90, 0.5);
    assert_near(score.worst, 0.5);
    assert_near(score.least, -0.2);
    assert_near(score.most, 0.5);
    assert_int_equal(score.banded_count, 3);
    assert_near(score.covered_ratio, 2.0 / 3);  // the ends of a band belong to it
}

static void nothing_scores_nothing(void **state)
{
    (void)state;
    struct score score = score_of(NULL, 0);
    assert_true(score.row_count == 0 && score.mape == 0 && score.worst == 0);
    const struct estimate failed = {3, 0, 0, 0};
    score = score_of(&failed, 1);
    assert_true(score.row_count == 0 && score.failure_count == 1 && score.mape == 0);
}

// p90 is an error that nine in ten rows do not exceed.
static void quantiles_are_of_the_rows(void **state)
{
    (void)state;
    struct estimate estimates[20];
    for (int i = 0; i < 20; i++) {
        estimates[i] = (struct estimate){.measured = 100, .predicted = 120 - i};  // 20 % ... 1 %
    }
    assert_near(score_of(estimates, 20).p90, 0.18);
    assert_near(score_of(estimates, 20).median, 0.105);
    assert_near(score_of(estimates, 19).median, 0.11);
    assert_near(score_of(estimates + 10, 10).p90, 0.09);
    assert_near(score_of(estimates, 1).p90, 0.2);
}

static void the_order_of_plans_is_counted_in_pairs(void **state)
{
    (void)state;
    // By measurement a < b < c < d; b and c are closer than 3 %.
    const struct ranked plans[] = {
        {"s", 1.00, 2.0}, {"s", 1.50, 1.9}, {"s", 1.52, 3.0}, {"s", 2.00, 2.5},
        {"t", 7.00, 9.0}, {"u", 1.00, 1.0}, {"u", 0, 2.0},    {"u", 3.0, 0},
    };
    struct ranking_score score = ranking_of(plans, 8);
    assert_int_equal(score.sweep_count, 1);  // one plan is no sweep
    assert_int_equal(score.pair_count, 5);
    assert_int_equal(score.right_count, 3);  // a-c, a-d, b-d; not a-b, c-d
    assert_near(score.regret_mean, 0.5);     // b is chosen
    assert_near(score.regret_worst, 0.5);
    assert_string_equal(score.worst_sweep, "s");
}

static void what_is_predicted_equal_is_not_ordered(void **state)
{
    (void)state;
    const struct ranked plans[] = {
        {"s", 1, 5}, {"s", 2, 5}, {"s", 1.5, 5}, {"t", 1, 1}, {"t", 2, 2},
    };
    struct ranking_score score = ranking_of(plans, 5);
    assert_int_equal(score.pair_count, 4);
    assert_int_equal(score.right_count, 1);
    assert_near(score.regret_mean, 0.5);  // 1 (the slowest of equals) and 0
    assert_near(score.regret_worst, 1);
}

static const char *write_temporary(struct arena *arena, const char *text)
{
    char *path = arena_copy(arena, "/tmp/score_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    return path;
}

static void left_out_files_come_back(void **state)
{
    struct arena *arena = *state;
    struct left_out_row rows[] = {{"b", "f", 2, 0, 1.5, 3}, {"a", "f", 1, 0, 0, 0}};
    struct left_out written = {.source = "a test", .rows = rows, .count = 2}, read;
    const char *path = write_temporary(arena, left_out_text(arena, &written));
    struct err err = {0};
    assert_true(left_out_read(arena, path, &read, &err));
    unlink(path);
    assert_string_equal(read.source, "a test");
    assert_int_equal(read.count, 2);
    assert_true(left_out_find(&read, "b")->step_s_low == 1.5);
    assert_true(left_out_find(&read, "a")->step_s == 1);
    assert_null(left_out_find(&read, "c"));
}

static void refuse(struct arena *arena, const char *text, const char *error)
{
    const char *path = write_temporary(arena, text);
    struct left_out read;
    struct err err = {0};
    assert_false(left_out_read(arena, path, &read, &err));
    unlink(path);
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(err.text + strlen(path), error);
}

static void wrong_left_out_files_are_refused(void **state)
{
    const char *row = "{\"id\": \"a\", \"family\": \"f\", \"step_s\": 1, \"step_s_low\": %d, "
                      "\"step_s_high\": 2}";
    const char *good = arena_print(*state, row, 1), *bad = arena_print(*state, row, 3);
    refuse(*state, "{\"source\": \"\", \"rows\": {}}",
           ":1:24: $.rows: expected an array, found an object");
    refuse(*state, arena_print(*state, "{\"source\": \"\", \"rows\": [%s]}", bad),
           ":1:25: $.rows[0]: the band ends before it begins");
    refuse(*state, arena_print(*state, "{\"source\": \"\", \"rows\": [%s, %s]}", good, good),
           ":1:24: $.rows: holds \"a\" twice");
    refuse(*state, "{\"source\": \"\", \"rows\": [{\"id\": \"a\"}]}",
           ":1:25: $.rows[0]: missing \"family\", \"step_s\", \"step_s_low\", \"step_s_high\"");
}

static struct headline headline_with(double dense, double regret)
{
    struct accuracy accuracy = {.ranking = {.regret_mean = regret}};
    accuracy.groups[ACCURACY_ALL_DENSE].now.mape = dense;
    return headline_of(&accuracy);
}

static int compare(struct arena *arena, const char *path, double dense, double regret,
                   struct headline_change changes[HEADLINE_MAX])
{
    struct err err = {0};
    struct headline headline = headline_with(dense, regret);
    int count = headline_worse(arena, path, &headline, 0.003, changes, &err);
    assert_string_equal(err.text, "");
    return count;
}

static void a_worse_figure_is_named(void **state)
{
    struct arena *arena = *state;
    struct headline committed = headline_with(0.08, 0.01);
    const char *path = write_temporary(arena, headline_text(arena, &committed));
    struct headline_change changes[HEADLINE_MAX];
    assert_int_equal(compare(arena, path, 0.08, 0.01, changes), 0);
    assert_int_equal(compare(arena, path, 0.0829, 0.0, changes), 0);
    assert_int_equal(compare(arena, path, 0.0831, 0.01, changes), 1);
    assert_string_equal(changes[0].words, "MAPE of dense rows");
    assert_near(changes[0].was, 0.08);
    assert_near(changes[0].is, 0.0831);
    assert_int_equal(compare(arena, path, 0.01, 0.2, changes), 1);
    assert_string_equal(changes[0].words, "mean regret");
    unlink(path);
}

// A mean may stay while two families part: each is held by its own figure.
static void a_worse_family_is_named(void **state)
{
    struct arena *arena = *state;
    struct accuracy_line lines[] = {{.name = "f", .now.mape = 0.05}, {.name = "g"}};
    struct accuracy accuracy = {.families = lines, .family_count = 2};
    struct headline headline = headline_of(&accuracy);
    const char *path = write_temporary(arena, headline_text(arena, &headline));
    struct headline_change changes[HEADLINE_MAX];
    struct err err = {0};
    lines[0].now.mape = 0.058;
    assert_int_equal(headline_worse(arena, path, &headline, 0.003, changes, &err), 0);
    lines[0].now.mape = 0.06;
    assert_int_equal(headline_worse(arena, path, &headline, 0.003, changes, &err), 1);
    assert_string_equal(changes[0].words, "f");
    assert_near(changes[0].was, 0.05);
    lines[1].name = "h";
    assert_int_equal(headline_worse(arena, path, &headline, 0.003, changes, &err), -1);
    assert_int_equal(err.kind, ERR_INPUT);
    unlink(path);
}

// The figure of this key for rows of which this share lay in their bands.
static double coverage_figure(const char *key, double now, double left_out)
{
    struct accuracy accuracy = {.has_left_out = true};
    struct accuracy_line *all = &accuracy.groups[ACCURACY_ALL];
    all->now = (struct score){.banded_count = 100, .covered_ratio = now};
    all->left_out = (struct score){.banded_count = 100, .covered_ratio = left_out};
    struct headline headline = headline_of(&accuracy);
    for (int i = 0; i < headline.count; i++) {
        if (strcmp(headline.figures[i].key, key) == 0) return headline.figures[i].value;
    }
    fail_msg("no figure %s", key);
    return 0;
}

static void bands_may_hold_more_of_what_they_were_made_from(void **state)
{
    (void)state;
    assert_near(coverage_figure("coverage_lack", 0.99, 0.9), 0);
    assert_near(coverage_figure("coverage_lack", 0.80, 0.9), 0.05);
    assert_near(coverage_figure("left_out_coverage_miss", 0.9, 0.99), 0.04);
    assert_near(coverage_figure("left_out_coverage_miss", 0.9, 0.75), 0.1);
    assert_near(coverage_figure("left_out_coverage_miss", 0.5, 0.9), 0);
}

static void other_figures_than_the_committed_ones_are_an_error(void **state)
{
    struct headline headline = headline_with(0, 0);
    struct headline_change changes[HEADLINE_MAX];
    const char *path = write_temporary(*state, "{\"dense_mape\": 0.08}");
    struct err err = {0};
    assert_int_equal(headline_worse(*state, path, &headline, 0.003, changes, &err), -1);
    unlink(path);
    assert_int_equal(err.kind, ERR_INPUT);
    static const char MISSING[] =
        ":1:1: $: missing \"dense_16_bit_mape\", \"dense_low_precision_mape\", ";
    assert_memory_equal(err.text + strlen(path), MISSING, strlen(MISSING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_counted_as_by_hand),
        cmocka_unit_test(nothing_scores_nothing),
        cmocka_unit_test(quantiles_are_of_the_rows),
        cmocka_unit_test(the_order_of_plans_is_counted_in_pairs),
        cmocka_unit_test(what_is_predicted_equal_is_not_ordered),
        cmocka_unit_test(left_out_files_come_back),
        cmocka_unit_test(wrong_left_out_files_are_refused),
        cmocka_unit_test(a_worse_figure_is_named),
        cmocka_unit_test(a_worse_family_is_named),
        cmocka_unit_test(bands_may_hold_more_of_what_they_were_made_from),
        cmocka_unit_test(other_figures_than_the_committed_ones_are_an_error),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
