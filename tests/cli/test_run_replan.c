#include "cli/run_replan.h"
#include "tests/support/pair_search.h"
#include "tests/support/test.h"

#include "cli/plan_question.h"
#include "core/file.h"
#include "planner/choice.h"
#include "reports/table/plan_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Whether going over to another plan is worth it: by the steps left and by what it costs.

// The path of a plan of two copies, in a folder of its own.
static const char *make_plan(struct arena *arena, const char *folder)
{
    struct err err = {0};
    struct search_request search = pair_search(arena);
    struct search_result result = {0};
    pins_set(&search.pins, CHOICE_DP, 2, 2);
    assert_true(search_plans(arena, &search, &result, &err) && result.best_count > 0);
    const char *text =
        plan_found_text(arena, &search, &result, &result.best[0].parallel, NULL, &err);
    const char *path = arena_print(arena, "%s/plan.json", folder);
    assert_true(text && file_write(path, text, strlen(text), &err));
    return path;
}

// Ten times as slow alone, and as much more than half is to be saved: 100 steps of 1 s.
static void it_is_worth_what_it_saves(void **state)
{
    static const struct {
        int64_t step;
        double start_s;
        bool goes;
    } CASES[] = {{100, 1, true}, {100, 1e6, false}, {199, 1, false}, {10, 60, true}};
    char folder[] = "/tmp/replan_XXXXXX";
    (void)state;
    struct arena arena = {0};
    assert_non_null(mkdtemp(folder));
    struct run_arguments arguments = {.plan = make_plan(&arena, folder), .steps = 200};
    arguments.checkpoint.folder = folder;
    const char *written = arena_print(&arena, "%s/plan-for-1.json", folder);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run_replan replan = {.arena = &arena, .arguments = &arguments};
        const struct launch_slow slow = {.rank = 1,
                                         .ratio = 10,
                                         .step = CASES[i].step,
                                         .step_s = 1,
                                         .stored_s = 0.5,
                                         .start_s = CASES[i].start_s};
        (void)unlink(written);
        assert_int_equal(run_replan(&replan, &slow), CASES[i].goes);
        assert_int_equal(access(written, R_OK) == 0, CASES[i].goes);
        if (!CASES[i].goes) continue;
        assert_string_equal(replan.plan, written);
        assert_int_equal(replan.left_out, 1);
    }
    (void)unlink(written);
    (void)unlink(arguments.plan);
    (void)rmdir(folder);
    arena_free(&arena);
}

// Ranks keep their places when another's is passed by.
static void places_that_are_left_out_are_passed_by(void **state)
{
    static const int LEFT_OUT[] = {1, 2, 5};
    static const int HOMES[] = {0, 3, 4, 6, 7};
    (void)state;
    for (int rank = 0; rank < 5; rank++)
        assert_int_equal(launch_home(LEFT_OUT, 3, rank), HOMES[rank]);
    assert_int_equal(launch_home(NULL, 0, 4), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_worth_what_it_saves),
        cmocka_unit_test(places_that_are_left_out_are_passed_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
