#include "cost_models/band.h"
#include "tests/test.h"

static struct band ROWS[] = {
    {.device = "*",
     .stack = "*",
     .kind = "dense",
     .confidence = CONFIDENCE_DATASHEET,
     .row_count = 1},
    {.device = "*",
     .stack = "s",
     .kind = "dense",
     .confidence = CONFIDENCE_DATASHEET,
     .row_count = 2},
    {.device = "d", .stack = "*", .kind = "dense", .row_count = 3},
    {.device = "d", .stack = "s", .kind = "dense", .row_count = 4},
    {.device = "*",
     .stack = "*",
     .kind = "mixture",
     .confidence = CONFIDENCE_DATASHEET,
     .row_count = 5},
};

static void the_most_particular_row_answers(void **state)
{
    (void)state;
    struct bands bands = {.rows = ROWS, .count = 5};
    assert_int_equal(bands_find(&bands, "d", "s", "dense", false)->row_count, 4);
    assert_int_equal(bands_find(&bands, "d", "t", "dense", false)->row_count, 3);
    assert_int_equal(bands_find(&bands, "e", "s", "dense", false)->row_count, 2);
    assert_int_equal(bands_find(&bands, "e", "t", "dense", false)->row_count, 1);
    assert_int_equal(bands_find(&bands, "d", "s", band_kind(8, false), false)->row_count, 5);
}

static void no_row_is_no_answer(void **state)
{
    (void)state;
    struct bands bands = {.rows = ROWS + 3, .count = 2};
    assert_null(bands_find(&bands, "e", "s", "dense", false));
}

static void every_shipped_row_says_where_it_comes_from(void **state)
{
    struct err err = {0};
    const struct bands *bands = bands_load(*state, &err);
    assert_string_equal(err.text, "");
    for (int i = 0; i < bands->count; i++) {
        assert_true(bands->rows[i].low_ratio <= 1 && bands->rows[i].high_ratio >= 1);
        assert_true(bands->rows[i].row_count > 0 && *bands->rows[i].source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_particular_row_answers),
        cmocka_unit_test(no_row_is_no_answer),
        cmocka_unit_test(every_shipped_row_says_where_it_comes_from),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
