#include "cli/options.h"
#include "tests/support/test.h"

struct values {
    const char *model;
    struct text_list clusters, forbid;
    const char *output, *schedule, *overlap;
    int batch;
    int64_t tokens;
    double bandwidth;
    bool json;
    struct int_range tp;
};

enum { ROW_COUNT = 12, ARGUMENT_COUNT_MAX = 100 };

static void make_table(struct values *values, struct option options[ROW_COUNT])
{
    const struct option rows[ROW_COUNT] = {
        {"MODEL", OPTION_TEXT, &values->model, "model", NULL, 0, 0},
        {"[CLUSTER...]", OPTION_TEXTS, &values->clusters, "clusters", NULL, 0, 0},
        {"-o", OPTION_TEXT, &values->output, "where the plan goes", "FILE", 0, 0},
        {"--json", OPTION_FLAG, &values->json, "for programs", NULL, 0, 0},
        {"--global-batch", OPTION_INT, &values->batch, "sequences a step", NULL, 0, 0},
        {"--tokens", OPTION_I64, &values->tokens, "tokens to train on", NULL, 0, 0},
        {"--bandwidth", OPTION_F64, &values->bandwidth, "bytes a second", "N", 1, 1e15},
        {"Pins", OPTION_GROUP, NULL, "what is pinned is kept, what is not is searched", NULL, 0, 0},
        {"--tp", OPTION_RANGE, &values->tp, "tensor parallel size", NULL, 0, 0},
        {"--schedule", OPTION_CHOICE, &values->schedule,
         "a pipeline schedule with an explanation that does not fit on one line of help",
         "gpipe|1f1b|zb-h1", 0, 0},
        {"--overlap", OPTION_WORDS, &values->overlap, "overlapped", "none|tp|grad-reduce", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
}

// Parses a line of words separated by blanks; the error's text or "".
static const char *parse(struct arena *arena, struct values *values, const char *line)
{
    struct option options[ROW_COUNT + 1] = {0};
    make_table(values, options);
    options[ROW_COUNT - 1] =
        (struct option){"--forbid", OPTION_TEXTS, &values->forbid, "exclude", "KEY=VALUE", 0, 0};
    char *argv[ARGUMENT_COUNT_MAX] = {arena_copy(arena, "plan")};
    int argc = 1;
    char *rest = arena_copy(arena, line);
    for (char *word = strtok(rest, " "); word; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    struct err err = {0};
    bool ok = options_parse(options, argc, argv, &err);
    assert_int_equal(ok, err.kind == ERR_NONE);
    assert_true(ok || exit_status(&err) == 2);
    return arena_copy(arena, err.text);
}

static void every_kind_of_value_is_read(void **state)
{
    struct values values = {0};
    const char *line = "llama a b --json --global-batch=1024 --tokens 2T --bandwidth 450e9 -o x "
                       "--tp 2..8 --schedule 1f1b --overlap tp,grad-reduce --forbid tp=16 "
                       "--forbid=pp=2 -- --c";
    assert_string_equal(parse(*state, &values, line), "");
    assert_string_equal(values.model, "llama");
    assert_int_equal(values.clusters.count, 3);
    assert_string_equal(values.clusters.items[2], "--c");
    assert_true(values.json);
    assert_int_equal(values.batch, 1024);
    assert_int_equal(values.tokens, 2000000000000);
    assert_true(values.bandwidth == 450e9);
    assert_string_equal(values.output, "x");
    assert_true(values.tp.set && values.tp.low == 2 && values.tp.high == 8);
    assert_string_equal(values.schedule, "1f1b");
    assert_string_equal(values.overlap, "tp,grad-reduce");
    assert_int_equal(values.forbid.count, 2);
    assert_string_equal(values.forbid.items[1], "pp=2");
}

static void what_is_not_given_stays_as_it_was(void **state)
{
    struct values values = {.batch = 7, .schedule = "1f1b"};
    assert_string_equal(parse(*state, &values, "llama --tp 4"), "");
    assert_int_equal(values.batch, 7);
    assert_string_equal(values.schedule, "1f1b");
    assert_true(values.tp.low == 4 && values.tp.high == 4);
    assert_false(values.json);
}

static void check(void **state, const char *line, const char *message)
{
    struct values values = {0};
    assert_string_equal(parse(*state, &values, line), message);
}

static void wrong_lines_are_answered_with_what_is_right(void **state)
{
    check(state, "", "missing MODEL");
    check(state, "m --tpp 4", "unknown option --tpp, did you mean --tp?");
    check(state, "m --zzzzzzz", "unknown option --zzzzzzz");
    check(state, "m --hlp", "unknown option --hlp, did you mean --help?");
    check(state, "m --tp", "--tp needs a value");
    check(state, "m --tp --json", "--tp needs a value");
    check(state, "m --json=1", "--json takes no value");
    check(state, "m --tp 4 --tp 8", "--tp is given twice");
    check(state, "m --tp 0", "--tp: must be between 1 and 2147483647, found 0");
    check(state, "m --tp 8..2", "--tp: the range 8..2 is empty");
    check(state, "m --tp ..2", "--tp: expected a number such as 4096, 1e12 or 2T, found \"\"");
    check(state, "m --schedule=zb", "--schedule: \"zb\" is not one of gpipe|1f1b|zb-h1");
    check(state, "m --schedule=", "--schedule: \"\" is not one of gpipe|1f1b|zb-h1");
    check(state, "m --overlap tp,pp", "--overlap: \"pp\" is not one of none|tp|grad-reduce");
    check(state, "m --overlap tp,", "--overlap: \"\" is not one of none|tp|grad-reduce");
    check(state, "m --bandwidth 0", "--bandwidth: must be between 1 and 1000000000000000, found 0");
    check(state, "m -o=", "-o: must not be empty");
    check(state, "m --global-batch 1.5", "--global-batch: expected a whole number, found \"1.5\"");
}

static void an_argument_too_many_is_named(void **state)
{
    (void)state;
    const char *path = NULL;
    const struct option options[] = {{"PLAN", OPTION_TEXT, &path, "plan", NULL, 0, 0}, {0}};
    char name[] = "simulate", first[] = "a", second[] = "b";
    char *argv[] = {name, first, second, NULL};
    struct err err = {0};
    assert_false(options_parse(options, 3, argv, &err));
    assert_string_equal(err.text, "unexpected argument \"b\"");
}

static void help_fits_the_page_and_names_every_row(void **state)
{
    struct arena *arena = *state;
    struct values values = {0};
    struct option options[ROW_COUNT] = {0};
    make_table(&values, options);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    options_print(stream, "plan", options);
    fclose(stream);
    assert_string_equal(
        text, "Usage: meshwright plan MODEL [CLUSTER...] [OPTION]...\n\n"
              "  MODEL                     model\n"
              "  [CLUSTER...]              clusters\n"
              "  -o FILE                   where the plan goes\n"
              "  --json                    for programs\n"
              "  --global-batch N          sequences a step\n"
              "  --tokens N                tokens to train on\n"
              "  --bandwidth N             bytes a second\n"
              "\nPins: what is pinned is kept, what is not is searched\n"
              "  --tp N|LOW..HIGH          tensor parallel size\n"
              "  --schedule gpipe|1f1b|zb-h1\n"
              "                            a pipeline schedule with an explanation that does\n"
              "                            not fit on one line of help\n"
              "  --overlap none|tp|grad-reduce\n"
              "                            overlapped\n");
    free(text);
    (void)arena;
}

static void help_is_asked_for_anywhere(void **state)
{
    (void)state;
    char name[] = "plan", model[] = "m", dashes[] = "--", help[] = "--help";
    char *wanted[] = {name, model, help};
    char *literal[] = {name, dashes, help};
    assert_true(options_help_is_text(3, wanted));
    assert_false(options_help_is_text(3, literal));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(what_is_not_given_stays_as_it_was),
        cmocka_unit_test(wrong_lines_are_answered_with_what_is_right),
        cmocka_unit_test(an_argument_too_many_is_named),
        cmocka_unit_test(help_fits_the_page_and_names_every_row),
        cmocka_unit_test(help_is_asked_for_anywhere),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
