#include "core/json_peek.h"
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *const WORDS[] = {"one", "two", NULL};

static const char *peek_at(struct arena *arena, const char *text)
{
    char *path = arena_copy(arena, "/tmp/meshwright-test-XXXXXX");
    int file = mkstemp(path);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    struct err err = {0};
    const char *word = json_peek(path, "kind", WORDS, &err);
    assert_int_equal(err.kind, 0);
    unlink(path);
    return word;
}

static void the_word_of_the_key_is_found(void **state)
{
    assert_string_equal(peek_at(*state, "{\"kind\": \"one\"}"), "one");
    assert_string_equal(peek_at(*state, "{\"x\": {\"kind\": \"one\"}, \"kind\": \"two\"}"), "two");
    assert_null(peek_at(*state, "{\"kind\": \"three\", \"of\": \"one\"}"));
    assert_null(peek_at(*state, "{\"x\": {\"kind\": \"one\"}}"));
}

// Whoever reads it as what it should be says what is wrong.
static void what_is_no_such_file_is_none_of_them(void **state)
{
    assert_null(peek_at(*state, ""));
    assert_null(peek_at(*state, "[\"one\"]"));
    assert_null(peek_at(*state, "\"one\""));
    assert_null(peek_at(*state, "{\"kind\": \"one\""));
    assert_null(peek_at(*state, "{\"kind\": [\"one\"]}"));
    struct err err = {0};
    assert_null(json_peek("/tmp", "kind", WORDS, &err));
    assert_null(json_peek("/no/such/file", "kind", WORDS, &err));
    assert_int_equal(err.kind, 0);
}

// Opening a pipe that nobody writes would wait for ever, and what is read of one is gone.
static void a_pipe_is_left_to_its_reader(void **state)
{
    char *path = arena_copy(*state, "/tmp/meshwright-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    const char *pipe = arena_print(*state, "%s/pipe", path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    struct err err = {0};
    assert_null(json_peek(pipe, "kind", WORDS, &err));
    assert_int_equal(err.kind, 0);
    unlink(pipe);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_of_the_key_is_found),
        cmocka_unit_test(what_is_no_such_file_is_none_of_them),
        cmocka_unit_test(a_pipe_is_left_to_its_reader),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
