#include "core/table.h"
#include "tests/support/test.h"

static void numbers_stand_right_and_words_left(void **state)
{
    struct table table = table_new(*state, "lrl");
    const char *head[] = {"layout", "step s", "why"};
    const char *row[] = {"tp4", "3.412", NULL};
    table_row(&table, head);
    table_row(&table, row);
    assert_string_equal(table_text(&table), "layout  step s  why\n"
                                            "tp4      3.412\n");
}

static void a_character_of_two_bytes_takes_one_place(void **state)
{
    struct table table = table_new(*state, "lr");
    const char *first[] = {"µs", "1"};
    const char *second[] = {"abc", "22"};
    table_row(&table, first);
    table_row(&table, second);
    assert_string_equal(table_text(&table), "µs    1\n"
                                            "abc  22\n");
}

static void a_table_grows_and_an_empty_one_is_empty(void **state)
{
    struct table table = table_new(*state, "r");
    assert_string_equal(table_text(&table), "");
    const char *row[] = {"1"};
    for (int i = 0; i < 100; i++) {
        table_row(&table, row);
    }
    assert_int_equal(strlen(table_text(&table)), 200);
}

static struct table plans(struct arena *arena)
{
    struct table table = table_new(arena, "rlrl");
    table_row(&table, (const char *[]){"#", "layout", "step s", "lost to"});
    table_row(&table, (const char *[]){"1", "tp4 sp pp2 dp16 mb1 z1", "74.89", "-"});
    table_row(&table, (const char *[]){"2", "tp4 pp4", "75.64", "stage imbalance 0.7%"});
    return table;
}

static void a_wide_table_breaks_words_and_never_cuts(void **state)
{
    struct table table = plans(*state);
    assert_string_equal(table_text_for(&table, 45, false),
                        "#  layout        step s  lost to\n"
                        "1  tp4 sp pp2     74.89  -\n"
                        "   dp16 mb1 z1\n"
                        "2  tp4 pp4        75.64  stage imbalance 0.7%\n");
}

static void heads_are_bold_where_there_is_colour(void **state)
{
    struct table table = table_new(*state, "l");
    table_row(&table, (const char *[]){"head"});
    table_row(&table, (const char *[]){"cell"});
    assert_string_equal(table_text_for(&table, 0, true), "\033[1mhead\n\033[0mcell\n");
    table.head_count = 0;
    assert_string_equal(table_text_for(&table, 0, true), "head\ncell\n");
}

static void too_many_numbers_stand_in_several_tables(void **state)
{
    struct table table = table_new(*state, "lrrr");
    table_row(&table, (const char *[]){"stage", "weights", "gradients", "optimizer"});
    table_row(&table, (const char *[]){"0", "16.1 GiB", "16.1 GiB", "6.02 GiB"});
    assert_string_equal(table_text_for(&table, 30, false), "stage   weights  gradients\n"
                                                           "0      16.1 GiB   16.1 GiB\n"
                                                           "\n"
                                                           "stage  optimizer\n"
                                                           "0       6.02 GiB\n");
}

static void cramped_words_at_the_end_stand_below_their_row(void **state)
{
    struct table table = table_new(*state, "rrl");
    table_row(&table, (const char *[]){"GPUs", "tokens a second", "layout"});
    table_row(&table, (const char *[]){"512", "123,456,789,012", "tp4 pp2 dp64 mb1 z1"});
    assert_string_equal(table_text_for(&table, 30, false), "GPUs  tokens a second\n"
                                                           "      layout\n"
                                                           " 512  123,456,789,012\n"
                                                           "      tp4 pp2 dp64 mb1 z1\n");
}

// At any width every word of every cell is there, and no line is wider.
static void no_width_loses_a_figure(void **state)
{
    struct table table = plans(*state);
    for (int width = 20; width < 100; width++) {
        const char *text = table_text_for(&table, width, false);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
            assert_true((int)strcspn(line, "\n") <= width);
        const char *const words[] = {"74.89", "75.64", "0.7%", "dp16", "pp4", "stage", "imbalance"};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            assert_non_null(strstr(text, words[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_stand_right_and_words_left),
        cmocka_unit_test(a_character_of_two_bytes_takes_one_place),
        cmocka_unit_test(a_table_grows_and_an_empty_one_is_empty),
        cmocka_unit_test(a_wide_table_breaks_words_and_never_cuts),
        cmocka_unit_test(heads_are_bold_where_there_is_colour),
        cmocka_unit_test(too_many_numbers_stand_in_several_tables),
        cmocka_unit_test(cramped_words_at_the_end_stand_below_their_row),
        cmocka_unit_test(no_width_loses_a_figure),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
