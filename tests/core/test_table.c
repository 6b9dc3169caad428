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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_stand_right_and_words_left),
        cmocka_unit_test(a_character_of_two_bytes_takes_one_place),
        cmocka_unit_test(a_table_grows_and_an_empty_one_is_empty),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
