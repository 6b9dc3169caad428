#include "tests/support/test.h"

static void the_first_error_wins(void **state)
{
    (void)state;
    struct err err = {0};
    assert_false(err_set(&err, ERR_INPUT, "%d heads", 48));
    assert_false(err_set(&err, ERR_SYSTEM, "later"));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(err.text, "48 heads");
}

static void an_error_is_one_line_whatever_it_quotes(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_USAGE, "unknown \"%s\"", "a\nb\033[31m");
    assert_string_equal(err.text, "unknown \"a?b?[31m\"");
}

static void a_long_error_says_that_it_is_cut(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct err err = {0};
    err_set(&err, ERR_INPUT, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + sizeof err.text - 5, "x...");
}

static void a_cut_does_not_split_a_character(void **state)
{
    (void)state;
    char text[3000];
    for (size_t i = 0; i + 3 < sizeof text; i += 2) {
        memcpy(text + i, "µ", 3);
    }
    struct err err = {0};
    err_set(&err, ERR_INPUT, "%s", text);
    assert_string_equal(err.text + strlen(err.text) - 5, "µ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(an_error_is_one_line_whatever_it_quotes),
        cmocka_unit_test(a_long_error_says_that_it_is_cut),
        cmocka_unit_test(a_cut_does_not_split_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
