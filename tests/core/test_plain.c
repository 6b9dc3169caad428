#include "core/err.h"
#include "core/json.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "models/onnx/model.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

// What others wrote, on its way out: plain, quoted, no formula. Expectations by hand; of the shell,
// by a shell.

static void what_is_not_shown_becomes_a_question_mark(void **state)
{
    const char *const cases[][2] = {
        {"gpt2", "gpt2"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[31mb\x7f", "a?[31mb?"},
        {"line\nline\r\t", "line?line??"},
        {"\xc2\x9b"
         "2J",
         "??2J"},  // CSI in one character
        {"a\xe2\x80\xae/", "a???"
                           "/"},            // what follows is shown from right to left
        {"\xe2\x81\xa6x", "???x"},          // so is this, isolated
        {"\xe2\x80\xa8x", "???x"},          // a line of its own
        {"\xef\xbb\xbfx", "???x"},          // a byte order mark
        {"\xff\xc3[", "??["},               // no UTF-8
        {"\xc0\xaf\xed\xa0\x80", "?????"},  // overlong, and a surrogate
        {"\xe2\x82", "??"},                 // cut
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *copy = plain_copy(*state, cases[i][0]);
        assert_string_equal(copy, cases[i][1]);
        assert_null(plain_fault(copy));
        assert_int_equal(plain_fault(cases[i][0]) == NULL, strcmp(copy, cases[i][0]) == 0);
    }
}

static void an_error_is_plain_whatever_it_quotes(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_INPUT, "%s: \"%s\"", "a\x1b]0;x\x07\n", "\xc2\x9b\xe2\x80\xae\xff\xc3\xa9");
    assert_string_equal(err.text, "a?]0;x??: \"??????\xc3\xa9\"");
}

// Every word that a shell reads back is the text, and it runs nothing.
static void a_shell_reads_the_text_back(void **state)
{
    const char *const texts[] = {"plan.json",
                                 "a b",
                                 "it's",
                                 "$(exit 7)`exit 7`",
                                 "\"*?[!#~;|&<>",
                                 "a\nb\x1b\x01\\'",
                                 "\xc2\x9b\xff-x",
                                 "-rf",
                                 "",
                                 "a=b\\",
                                 "$'\\n'",
                                 "\xc3\xa9 \xe2\x82\xac"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *word = plain_shell(*state, texts[i]);
        assert_null(plain_fault(word));
        char *command = arena_print(*state, "printf '%%s.' %s", word);
        char *quoted = ARENA_NEW(*state, char, 4 * strlen(command) + 16), *at = quoted;
        at = stpcpy(at, "bash -c '");
        for (const char *from = command; *from; from++) {
            at = *from == '\'' ? stpcpy(at, "'\\''") : (*at = *from, at + 1);
        }
        stpcpy(at, "'");
        char answer[64] = "";
        FILE *shell = popen(quoted, "r");
        assert_non_null(shell);
        size_t bytes = fread(answer, 1, sizeof answer - 1, shell);
        assert_int_equal(pclose(shell), 0);
        assert_int_equal(bytes, strlen(texts[i]) + 1);
        assert_memory_equal(answer, texts[i], strlen(texts[i]));
    }
    assert_string_equal(plain_shell(*state, "runs/plan-1.json"), "runs/plan-1.json");
    assert_string_equal(plain_shell(*state, "my plan.json"), "'my plan.json'");
}

static void a_cell_is_no_formula(void **state)
{
    const char *const cases[][2] = {
        {"dgx-h100", "dgx-h100"},
        {"-1.5e-9", "-1.5e-9"},
        {"+3", "+3"},
        {"-", "'-"},
        {"-1+2", "'-1+2"},
        {"+cmd", "'+cmd"},
        {"@SUM(A1)", "'@SUM(A1)"},
        {"=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""},
        {"a;=1", "\"a;=1\""},
        {"a,\"b\"", "\"a,\"\"b\"\"\""},
        {"\t=1", "?=1"},
        {"\r\n5", "??5"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(plain_csv(*state, cases[i][0]), cases[i][1]);
    }
}

static void json_writes_by_number_what_is_not_shown(void **state)
{
    struct json_writer writer = {.arena = *state};
    json_put_text(&writer, NULL, "\x1b\x7f\xc2\x9b\xe2\x80\xae\xff\xc3\xa9\n\"\xf0\x9f\x98\x80");
    assert_string_equal(writer.text, "\"\\u001b\\u007f\\u009b\\u202e\\ufffd\xc3\xa9\\n\\\"\xf0\x9f"
                                     "\x98\x80\"");
}

static void a_text_of_a_file_is_plain_or_refused(void **state)
{
    const char *const cases[][2] = {
        {"\"a\\u001b\"", "x:1:1: $: holds U+001B, which is no character that can be shown"},
        {"\"a\\n\"", "x:1:1: $: holds U+000A, which is no character that can be shown"},
        {"\"\\u202e\"", "x:1:1: $: holds U+202E, which is no character that can be shown"},
        {"\"\\u0085\"", "x:1:1: $: holds U+0085, which is no character that can be shown"},
        {"\"=</script>`\"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct json_document document;
        assert_true(json_parse(*state, "x", cases[i][0], strlen(cases[i][0]), &document, &err));
        struct json root = json_root(&document);
        const char *text = json_text(&root, &err);
        assert_int_equal(text == NULL, err.kind != ERR_NONE);
        assert_string_equal(err.text, cases[i][1]);
    }
}

// Of protobuf, where a name may be any bytes.
static void a_name_of_onnx_is_printable_and_ends(void **state)
{
    assert_string_equal(printable(*state, "/layer\x1b[2J\n\xc2\x9b"), "/layer?[2J???");
    char *endless = ARENA_NEW(*state, char, 5000);
    memset(endless, 'x', 4999);
    assert_int_equal(strlen(printable(*state, endless)), TEXT_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_shown_becomes_a_question_mark),
        cmocka_unit_test(an_error_is_plain_whatever_it_quotes),
        cmocka_unit_test(a_shell_reads_the_text_back),
        cmocka_unit_test(a_cell_is_no_formula),
        cmocka_unit_test(json_writes_by_number_what_is_not_shown),
        cmocka_unit_test(a_text_of_a_file_is_plain_or_refused),
        cmocka_unit_test(a_name_of_onnx_is_printable_and_ends),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
