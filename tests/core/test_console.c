#include "core/console.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

// What is printed for a terminal of so many columns.
static char *printed(const char *text, const char *columns)
{
    char *out = NULL;
    size_t bytes = 0;
    setenv("COLUMNS", columns, 1);
    FILE *stream = open_memstream(&out, &bytes);
    console_print(stream, text);
    fclose(stream);
    unsetenv("COLUMNS");
    return out;
}

static void assert_printed(const char *text, const char *columns, const char *wanted)
{
    char *out = printed(text, columns);
    assert_string_equal(out, wanted);
    free(out);
}

static void the_width_is_what_columns_says_and_a_pipe_has_none(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    unsetenv("COLUMNS");
    assert_int_equal(console_width(stream), 0);
    const char *const said[] = {"80", "3", "0", "-4", "many", "99999999999"};
    const int widths[] = {80, 20, 0, 0, 0, 0};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        setenv("COLUMNS", said[i], 1);
        assert_int_equal(console_width(stream), widths[i]);
    }
    unsetenv("COLUMNS");
    assert_false(console_is_coloured(stream));
    fclose(stream);
    free(text);
}

static void a_long_line_is_broken_at_blanks_and_goes_on_deeper(void **state)
{
    (void)state;
    const char *text = "   one two three four five six seven eight\nshort\n";
    assert_printed(text, "24", "   one two three four\n     five six seven\n     eight\nshort\n");
    assert_printed(text, "0", text);
}

static void a_number_stays_with_its_unit(void **state)
{
    (void)state;
    assert_printed("The step takes about 71.2 GiB of it\n", "27",
                   "The step takes about\n  71.2 GiB of it\n");
    assert_printed("Of them it is no more 12 % then\n", "24",
                   "Of them it is no more\n  12 % then\n");
}

static void a_word_too_long_is_broken_at_its_marks_and_loses_nothing(void **state)
{
    (void)state;
    assert_printed("norm,activation,mlp,experts\n", "20", "norm,activation,mlp,\n  experts\n");
    assert_printed("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "20",
                   "aaaaaaaaaaaaaaaaaaaa\n  aaaaaaaaaa\n");
    // Characters of several bytes are one column and stay whole.
    assert_printed("ééééééééééééééééééééééé\n", "20", "éééééééééééééééééééé\n  ééé\n");
}

static void a_command_stays_one_that_a_shell_takes(void **state)
{
    (void)state;
    assert_printed("Next: meshwright plan 'my own model' c --seq-len 4096 --tokens 2T\n", "50",
                   "Next: meshwright plan 'my own model' c \\\n"
                   "      --seq-len 4096 --tokens 2T\n");
}

static void no_width_makes_it_print_anything_else(void **state)
{
    (void)state;
    const char *text = "  Best of 53,494 plans (closed form 74.89 s): first of 5 that the band "
                       "cannot tell apart; megatron-deepspeed,fsdp2 and 1.2 % of it\n";
    for (int width = 20; width < 200; width++) {
        char columns[8];
        snprintf(columns, sizeof columns, "%d", width);
        char *out = printed(text, columns);
        const char *at = text;
        size_t column = 0;
        for (const char *c = out; *c; c++) {
            column = *c == '\n' ? 0 : column + 1;
            assert_true(column <= (size_t)width);
            if (*c == ' ' || *c == '\n') continue;
            at += strspn(at, " \n");
            assert_int_equal(*c, *at++);
        }
        assert_int_equal(strspn(at, " \n"), strlen(at));
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_width_is_what_columns_says_and_a_pipe_has_none),
        cmocka_unit_test(a_long_line_is_broken_at_blanks_and_goes_on_deeper),
        cmocka_unit_test(a_number_stays_with_its_unit),
        cmocka_unit_test(a_word_too_long_is_broken_at_its_marks_and_loses_nothing),
        cmocka_unit_test(a_command_stays_one_that_a_shell_takes),
        cmocka_unit_test(no_width_makes_it_print_anything_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
