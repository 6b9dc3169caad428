#include "cli/memory_bug.h"
#include "cli/memory_run.h"
#include "cli/options.h"
#include "memory/plan_schedule.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// A wrong schedule, made by breaking a right one before it is checked, ends with exit status 4 and
// the question in a file that reads back.

static int folder_setup(void **state)
{
    static const char TEMPLATE[] = "/tmp/meshwright-bug-XXXXXX";
    if (arena_setup(state) != 0) return -1;
    char *folder = arena_copy(*state, TEMPLATE);
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int folder_teardown(void **state)
{
    char folder[256];
    bool is_known = getcwd(folder, sizeof folder) != NULL;
    if (chdir("/") != 0) return -1;
    if (is_known) (void)rmdir(folder);
    return arena_teardown(state);
}

static void overlap(struct memory_schedule *schedule)
{
    int64_t *offsets = (int64_t *)schedule->offsets;
    for (int b = 0; b < schedule->buffer_count; b++)
        offsets[b] = 0;
}

static struct pack_problem small_packing(void)
{
    static const struct pack_buffer BUFFERS[] = {
        {0, 4, 64, 1, -1}, {2, 6, 32, 16, -1}, {5, 9, 8, 1, 32}};
    return (struct pack_problem){BUFFERS, sizeof BUFFERS / sizeof *BUFFERS, 0};
}

static void a_refused_packing_is_saved(void **state)
{
    static const char PATH[] = "meshwright-memory-bug.csv";
    struct arena *arena = *state;
    struct memory_arguments arguments = {.method = "roam"};
    struct pack_problem problem = small_packing();
    struct memory_schedule rows[MEMORY_METHOD_COUNT];
    struct err err = {0};
    assert_true(memory_run_packing(arena, &arguments, &problem, rows, &err));
    assert_int_equal(access(PATH, F_OK), -1);

    arguments.spoil = overlap;
    assert_false(memory_run_packing(arena, &arguments, &problem, rows, &err));
    assert_int_equal(exit_status(&err), 4);
    assert_memory_equal(err.text, "a bug: the packing is wrong: ", 29);
    assert_non_null(strstr(err.text, "; wrote meshwright-memory-bug.csv"));

    struct packing_file file;
    err = (struct err){0};
    assert_true(packing_load(arena, PATH, &file, &err));
    assert_int_equal(file.problem.count, problem.count);
    for (int i = 0; i < problem.count; i++) {
        const struct pack_buffer *saved = &file.problem.buffers[i], *was = &problem.buffers[i];
        assert_int_equal(saved->lower, was->lower);
        assert_int_equal(saved->upper, was->upper);
        assert_int_equal(saved->size, was->size);
        assert_int_equal(saved->alignment, was->alignment);
        assert_int_equal(saved->fixed_offset, was->fixed_offset);
    }
    assert_int_equal(remove(PATH), 0);
}

static void a_refused_graph_is_saved(void **state)
{
    static const char PATH[] = "meshwright-memory-bug.json";
    struct arena *arena = *state;
    struct memory_arguments arguments = {.method = "greedy", .spoil = overlap};
    struct memory_graph *graph = graph_four(arena);
    const struct memory_problem *problem = memory_problem_make(arena, graph, 512);
    struct memory_report report;
    struct err err = {0};
    assert_false(memory_run_graph(arena, &arguments, graph, problem, 512, NULL, &report, &err));
    assert_int_equal(exit_status(&err), 4);
    assert_non_null(strstr(err.text, "; wrote meshwright-memory-bug.json"));

    err = (struct err){0};
    const struct memory_graph *saved = memory_graph_load(arena, PATH, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(memory_graph_text(arena, saved), memory_graph_text(arena, graph));
    assert_int_equal(remove(PATH), 0);
}

static void the_stage_of_a_plan_that_is_refused_is_named(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct priced of = priced_start(arena, "gpt2", "dgx-a100-80g", "megatron-core");
    of.parallel.degree[AXIS_PP] = 2;
    priced_finish(&of);
    struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
    struct plan_stages stages;
    struct err err = {0};
    assert_true(plan_schedule_make(arena, &scratch, of.program, of.stack, &options, &stages, &err));
    assert_null(stages.refused);
    options.spoil = overlap;
    assert_false(
        plan_schedule_make(arena, &scratch, of.program, of.stack, &options, &stages, &err));
    assert_int_equal(err.kind, ERR_SYSTEM);
    // That with the most bytes is asked first: the last, which has the logits.
    assert_string_equal(stages.refused->name, "stage 1");
    arena_free(&scratch);
}

// Where there is no place for the file the finding itself is what is said.
static void a_folder_that_takes_no_file_hides_no_bug(void **state)
{
    struct pack_problem problem = small_packing();
    struct err err = {0};
    assert_int_equal(mkdir("meshwright-memory-bug.csv", 0700), 0);
    assert_false(err_set(&err, ERR_SYSTEM, "a bug: found"));
    assert_false(memory_save_packing(*state, &problem, &err));
    assert_string_equal(err.text, "a bug: found");
    assert_int_equal(err.kind, ERR_SYSTEM);
    assert_int_equal(rmdir("meshwright-memory-bug.csv"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_packing_is_saved),
        cmocka_unit_test(a_refused_graph_is_saved),
        cmocka_unit_test(the_stage_of_a_plan_that_is_refused_is_named),
        cmocka_unit_test(a_folder_that_takes_no_file_hides_no_bug),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
