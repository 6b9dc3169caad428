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
    struct trace trace = {
        .spans = spans, .span_count = 2, .rank_count = 2, .task_name = task_name, .context = "F"};
    struct err err = {0};
    char path[] = "/tmp/meshwright-trace-XXXXXX";
    close(mkstemp(path));
    assert_true(trace_write(&trace, path, &err));
    struct json_document document;
    assert_true(json_load(arena, path, &document, &err));
    struct json root = json_root(&document);
    // Of each process and track name and place.
    assert_int_equal(json_count(&root, &err), 2 * 2 + 2 * 2 + 2);
    assert_non_null(strstr(document.text,
                           "{\"name\":\"F \\\"3\\\"\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":0,"
                           "\"tid\":0,\"ts\":0.000,\"dur\":1.500,\"args\":{\"task\": 3}}"));
    assert_non_null(strstr(document.text, "\"ts\":9007199254740.993,\"dur\":0.000"));
    unlink(path);
}

static void slices_that_overlap_are_on_tracks_of_their_own(void **state)
{
    struct arena *arena = *state;
    struct span spans[] = {
        {.stream = STREAM_DP, .task = 0, .start_ns = 0, .end_ns = 50},
        {.stream = STREAM_DP, .task = 1, .start_ns = 10, .end_ns = 20},
        {.stream = STREAM_DP, .task = 2, .start_ns = 20, .end_ns = 60},
        {.stream = STREAM_DP, .task = 3, .start_ns = 50, .end_ns = 70},
    };
    struct trace trace = {
        .spans = spans, .span_count = 4, .rank_count = 1, .task_name = task_name, .context = "F"};
    struct err err = {0};
    char path[] = "/tmp/meshwright-trace-XXXXXX";
    close(mkstemp(path));
    assert_true(trace_write(&trace, path, &err));
    struct json_document document;
    assert_true(json_load(arena, path, &document, &err));
    static const int THREADS[] = {400, 401, 401, 400};
    for (int i = 0; i < 4; i++) {
        const char *slice = arena_print(arena,
                                        "F \\\"%d\\\"\",\"cat\":\"dp\",\"ph\":\"X\","
                                        "\"pid\":0,\"tid\":%d,",
                                        i, THREADS[i]);
        assert_non_null(strstr(document.text, slice));
    }
    assert_non_null(strstr(document.text, "\"tid\":401,\"args\":{\"name\":\"dp (2)\"}"));
    unlink(path);
}

static int two_parts(const void *context, int64_t index, struct arena *scratch,
                     struct span_part **parts)
{
    (void)context;
    if (index > 0) return 0;
    *parts = ARENA_NEW(scratch, struct span_part, 2);
    (*parts)[0] = (struct span_part){"layer 0", 0, 1000, 4e3, 0};
    (*parts)[1] = (struct span_part){"up", 0, 500, 4e3, 8};
    return 2;
}

static void parts_arrows_and_levels_are_events(void **state)
{
    struct arena *arena = *state;
    struct span spans[] = {
        {.rank = 0, .stream = STREAM_COMPUTE, .task = 0, .start_ns = 0, .end_ns = 1000},
        {.rank = 1, .stream = STREAM_PP, .task = 1, .start_ns = 1000, .end_ns = 1200},
    };
    const struct trace_flow flow = {"message", 0, 1, 999, 1000};
    const struct trace_level level = {1, 1500, 3.0 * 512 * 1024 * 1024};
    struct trace trace = {.spans = spans,
                          .span_count = 2,
                          .rank_count = 2,
                          .task_name = task_name,
                          .context = "F",
                          .span_parts = two_parts,
                          .flows = &flow,
                          .flow_count = 1,
                          .levels = &level,
                          .level_count = 1};
    struct err err = {0};
    char path[] = "/tmp/meshwright-trace-XXXXXX";
    close(mkstemp(path));
    assert_true(trace_write(&trace, path, &err));
    struct json_document document;
    assert_true(json_load(arena, path, &document, &err));
    static const char *const EVENTS[] = {
        "{\"name\":\"up\",\"cat\":\"operator\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000,"
        "\"dur\":0.500,\"args\":{\"flop\": 4000, \"bytes\": 8, \"flop_per_s\": 8000000000, "
        "\"bytes_per_s\": 16000000}}",
        "{\"name\":\"message\",\"cat\":\"flow\",\"ph\":\"s\",\"id\":0,\"pid\":0,\"tid\":0,"
        "\"ts\":0.999}",
        "{\"name\":\"message\",\"cat\":\"flow\",\"ph\":\"f\",\"bp\":\"e\",\"id\":0,\"pid\":1,"
        "\"tid\":500,\"ts\":1.000}",
        "{\"name\":\"memory (GiB)\",\"ph\":\"C\",\"pid\":1,\"ts\":1.500,"
        "\"args\":{\"GiB\":1.50000}}",
    };
    for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++)
        if (!strstr(document.text, EVENTS[i]))
            fail_msg("%s is not in %s", EVENTS[i], document.text);
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
        cmocka_unit_test(slices_that_overlap_are_on_tracks_of_their_own),
        cmocka_unit_test(parts_arrows_and_levels_are_events),
        cmocka_unit_test(an_empty_trace_is_an_empty_list),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
