#include "core/file.h"
#include "core/json.h"
#include "core/trace.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

static const char *task_name(const void *context, const struct span *span, struct arena *scratch)
{
    return arena_print(scratch, "%s \"%d\"", (const char *)context, span->task);
}

static void a_trace_is_valid_json_with_exact_times(void **state)
{
    struct arena *arena = *state;
    struct span spans[] = {
        {.rank = 0, .stream = STREAM_COMPUTE, .task = 3, .start_ns = 0, .end_ns = 1500},
        {.rank = 1,
         .stream = STREAM_PP,
         .task = 4,
         .start_ns = 9007199254740993,
         .end_ns = 9007199254740993},
    };
    struct trace trace = {spans, 2, 2, task_name, NULL, "F", NULL};
    struct err err = {0};
    char path[] = "/tmp/meshwright-trace-XXXXXX";
    close(mkstemp(path));
    assert_true(trace_write(&trace, path, &err));
    struct json_document document;
    assert_true(json_load(arena, path, &document, &err));
    struct json root = json_root(&document);
    assert_int_equal(json_count(&root, &err), 2 + 2 * STREAM_COUNT + 2);
    assert_non_null(strstr(document.text,
                           "{\"name\":\"F \\\"3\\\"\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":0,"
                           "\"tid\":0,\"ts\":0.000,\"dur\":1.500,\"args\":{\"task\":3}}"));
    assert_non_null(strstr(document.text, "\"ts\":9007199254740.993,\"dur\":0.000"));
    unlink(path);
}

static void an_empty_trace_is_an_empty_list(void **state)
{
    struct trace trace = {.task_name = task_name};
    struct err err = {0};
    size_t bytes = 0;
    char path[] = "/tmp/meshwright-trace-XXXXXX";
    close(mkstemp(path));
    assert_true(trace_write(&trace, path, &err));
    assert_string_equal(file_read(*state, path, 100, &bytes, &err), "[\n\n]\n");
    unlink(path);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct trace trace = {.task_name = task_name};
    struct err err = {0};
    assert_false(trace_write(&trace, "/none/t.json", &err));
    assert_string_equal(err.text, "cannot write /none/t.json: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_valid_json_with_exact_times),
        cmocka_unit_test(an_empty_trace_is_an_empty_list),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
