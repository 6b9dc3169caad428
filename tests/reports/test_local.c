#include "tests/support/test.h"

#include "cli/local.h"
#include "core/file.h"
#include "core/json_write.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// CLUSTER local and its cache, with a machine that is measured by counting how often.

struct local_bench {
    struct arena *arena;
    struct local_request request;
    int measured_count;
    bool fails, is_beaten;  // beaten: another process has measured meanwhile
    char note[2048];
    char folder[64];
};

static const struct local_key KEY = {"a processor", "a library", "0", "b", 2, 1, 1000000000, "cpu"};

// Any cluster and stack of so many ranks will do.
static char *text_for(struct arena *arena, const struct local_key *key)
{
    struct err err = {0};
    struct local local = {.cluster = cluster_load(arena, "dgx-h100", &err),
                          .stack = stack_load(arena, "meshwright-cpu", &err)};
    assert_string_equal(err.text, "");
    assert_true(cluster_take_gpus(local.cluster, key->rank_count, &err));
    return local_text(arena, key, &local);
}

static void note(void *context, const char *line)
{
    struct local_bench *bench = context;
    size_t used = strlen(bench->note);
    snprintf(bench->note + used, sizeof bench->note - used, "%s\n", line);
}

static char *measure(void *context, struct arena *arena, const struct local_key *key,
                     struct err *err)
{
    struct local_bench *bench = context;
    bench->measured_count++;
    if (bench->fails) {
        err_set(err, ERR_SYSTEM, "it is broken");
        return NULL;
    }
    if (bench->is_beaten) {
        bench->is_beaten = false;
        struct local other;
        assert_true(local_load(arena, &bench->request, &other, err));
    }
    return text_for(arena, key);
}

static struct local_bench *start(struct arena *arena)
{
    struct local_bench *bench = ARENA_NEW(arena, struct local_bench, 1);
    bench->arena = arena;
    strcpy(bench->folder, "/tmp/meshwright-test-XXXXXX");
    assert_non_null(mkdtemp(bench->folder));
    bench->request = (struct local_request){
        .key = KEY,
        .path = arena_print(arena, "%s/deep/meshwright/local-1.json", bench->folder),
        .measure = measure,
        .measure_context = bench,
        .note = note,
        .note_context = bench,
    };
    return bench;
}

static void stop(struct local_bench *bench)
{
    unlink(arena_print(bench->arena, "%s/deep/meshwright/local-1.json", bench->folder));
    rmdir(arena_print(bench->arena, "%s/deep/meshwright", bench->folder));
    unlink(arena_print(bench->arena, "%s/deep", bench->folder));
    rmdir(arena_print(bench->arena, "%s/deep", bench->folder));
    assert_int_equal(rmdir(bench->folder), 0);  // no temporary file has stayed
}

// Loads once and says how often it has been measured so far.
static int load(struct local_bench *bench)
{
    struct err err = {0};
    struct local local = {0};
    bench->note[0] = '\0';
    bool done = local_load(bench->arena, &bench->request, &local, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    assert_int_equal(local.cluster->rank_count, bench->request.key.rank_count);
    assert_string_equal(local.stack->name, "meshwright-cpu");
    return bench->measured_count;
}

static void a_machine_is_measured_once(void **state)
{
    struct local_bench *bench = start(*state);
    assert_int_equal(load(bench), 1);
    assert_string_equal(bench->note, "measuring this machine\n");
    assert_int_equal(load(bench), 1);
    assert_string_equal(bench->note, "");
    stop(bench);
}

static void another_machine_library_or_version_is_measured_again(void **state)
{
    struct local_bench *bench = start(*state);
    struct local_key *key = &bench->request.key;
    int expected = 1;
    assert_int_equal(load(bench), expected);
    key->processor = "another processor";
    assert_int_equal(load(bench), ++expected);
    assert_string_equal(bench->note, "measuring this machine again: another machine, library or "
                                     "version than the last time\n");
    key->libraries = "another library";
    assert_int_equal(load(bench), ++expected);
    key->version = "1";
    assert_int_equal(load(bench), ++expected);
    key->build = "another build";
    assert_int_equal(load(bench), ++expected);
    key->core_count = 3;
    assert_int_equal(load(bench), ++expected);
    key->memory_bytes = 2;
    assert_int_equal(load(bench), ++expected);
    key->rank_count = 2;
    assert_int_equal(load(bench), ++expected);
    assert_int_equal(load(bench), expected);
    stop(bench);
}

static void write_cache(struct local_bench *bench, const char *text)
{
    struct err err = {0};
    assert_true(file_write(bench->request.path, text, strlen(text), &err));
}

static void a_broken_cache_is_measured_again(void **state)
{
    struct local_bench *bench = start(*state);
    int expected = 1;
    assert_int_equal(load(bench), expected);
    const char *good = text_for(*state, &KEY);
    const char *broken[] = {"", "{", "[]", "{\"format\": 1}",
                            arena_print(*state, "%.*s", (int)strlen(good) / 2, good)};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_cache(bench, broken[i]);
        assert_int_equal(load(bench), ++expected);
        const char *begin =
            arena_print(*state, "measuring this machine again (%s:", bench->request.path);
        assert_memory_equal(bench->note, begin, strlen(begin));
        assert_int_equal(load(bench), expected);
    }
    struct local_key other = KEY;
    other.rank_count = 2;
    // One that says it is of one rank and holds a cluster of two.
    char *text = text_for(*state, &other);
    char *at = strstr(text, "\"rank_count\": 2");
    assert_non_null(at);
    at[strlen("\"rank_count\": ")] = '1';
    write_cache(bench, text);
    assert_int_equal(load(bench), ++expected);
    assert_non_null(strstr(bench->note, "expected 1 ranks, found 2"));
    stop(bench);
}

static void a_later_format_is_measured_again(void **state)
{
    struct local_bench *bench = start(*state);
    assert_int_equal(load(bench), 1);
    write_cache(bench, "{\"format\": 2, \"machine\": 1, \"cluster\": 2, \"stack\": 3}");
    assert_int_equal(load(bench), 2);
    assert_int_equal(load(bench), 2);
    stop(bench);
}

static void a_cache_that_cannot_be_written_is_a_note(void **state)
{
    struct local_bench *bench = start(*state);
    struct err err = {0};
    // Where the folder should be there is a file.
    assert_true(file_write(arena_print(*state, "%s/deep", bench->folder), "x", 1, &err));
    assert_int_equal(load(bench), 1);
    assert_non_null(strstr(bench->note, ": measured again next time\n"));
    assert_int_equal(load(bench), 2);
    bench->request.path = NULL;
    assert_int_equal(load(bench), 3);
    assert_non_null(strstr(bench->note, "neither XDG_CACHE_HOME nor HOME names a folder"));
    stop(bench);
}

static void two_at_once_do_no_harm(void **state)
{
    struct local_bench *bench = start(*state);
    bench->is_beaten = true;
    assert_int_equal(load(bench), 2);
    assert_int_equal(load(bench), 2);
    stop(bench);
}

static void a_measurement_that_fails_is_an_error(void **state)
{
    struct local_bench *bench = start(*state);
    struct err err = {0};
    struct local local;
    bench->fails = true;
    assert_false(local_load(*state, &bench->request, &local, &err));
    assert_string_equal(err.text, "it is broken");
    assert_false(file_exists(bench->request.path));
    stop(bench);
}

static void the_cache_follows_the_environment(void **state)
{
    struct arena *arena = *state;
    const struct local_key cpu = {.rank_count = 4, .backend = "cpu"};
    const struct local_key cuda = {.rank_count = 2, .backend = "cuda"};
    setenv("HOME", "/home/somebody", 1);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    assert_string_equal(local_path(arena, &cpu), "/cache/meshwright/local-4.json");
    assert_string_equal(local_path(arena, &cuda), "/cache/meshwright/local-cuda-2.json");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_string_equal(local_path(arena, &cpu), "/home/somebody/.cache/meshwright/local-4.json");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_null(local_path(arena, &cpu));
}

static void only_local_has_ranks(void **state)
{
    struct err err = {0};
    assert_null(local_or_load(*state, "plan", "dgx-h100", 2, NULL, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    err = (struct err){0};
    const struct stack *stack = NULL;
    struct cluster *cluster = local_or_load(*state, "plan", "dgx-h100", 0, &stack, &err);
    assert_non_null(cluster);
    assert_null(stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_is_measured_once),
        cmocka_unit_test(another_machine_library_or_version_is_measured_again),
        cmocka_unit_test(a_broken_cache_is_measured_again),
        cmocka_unit_test(a_later_format_is_measured_again),
        cmocka_unit_test(a_cache_that_cannot_be_written_is_a_note),
        cmocka_unit_test(two_at_once_do_no_harm),
        cmocka_unit_test(a_measurement_that_fails_is_an_error),
        cmocka_unit_test(the_cache_follows_the_environment),
        cmocka_unit_test(only_local_has_ranks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
