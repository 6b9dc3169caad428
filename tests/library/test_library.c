#include "library/meshwright.h"
#include "tests/support/test.h"

#include <unistd.h>

static const char QUESTION[] =
    "{\"model\": \"gpt2\", \"cluster\": \"dgx-a100-80g\", \"seq_len\": 512, \"global_batch\": 16, "
    "\"pins\": {\"tp\": 1, \"pp\": 1, \"micro_batch\": 2, \"zero\": \"0..1\"}}";

static void a_plan_is_made_saved_loaded_and_asked(void **state)
{
    struct arena *arena = *state;
    const char *path = arena_print(arena, "/tmp/meshwright-library-%d.json", (int)getpid());
    struct meshwright *plan = meshwright_new(), *again = meshwright_new();
    assert_int_equal(meshwright_plan(plan, QUESTION), MESHWRIGHT_YES);
    const char *made = arena_copy(arena, meshwright_text(plan));
    assert_non_null(strstr(made, "\"micro_batch\": 2"));
    assert_int_equal(meshwright_save(plan, path), MESHWRIGHT_YES);
    assert_int_equal(meshwright_load(again, path), MESHWRIGHT_YES);
    unlink(path);
    assert_string_equal(meshwright_text(again), made);

    struct meshwright_figures figures = {.struct_bytes = sizeof figures};
    assert_int_equal(meshwright_figures(again, &figures), MESHWRIGHT_YES);
    assert_int_equal(figures.gpu_count, 8);
    assert_true(figures.step_s > 0 && figures.step_s_low < figures.step_s &&
                figures.step_s < figures.step_s_high);
    assert_int_equal(meshwright_simulate(again), MESHWRIGHT_YES);
    assert_non_null(strstr(meshwright_text(again), "\"prediction\": {"));
    assert_int_equal(meshwright_memory(again), MESHWRIGHT_YES);
    assert_non_null(strstr(meshwright_text(again), "\"stages\": ["));

    assert_int_equal(meshwright_what_if(again, "{\"gpus\": 4, \"keep\": true}"), MESHWRIGHT_YES);
    assert_non_null(strstr(meshwright_text(again), "\"dp\": 4"));
    // The plan itself stayed.
    assert_int_equal(meshwright_figures(again, &figures), MESHWRIGHT_YES);
    assert_int_equal(figures.gpu_count, 8);
    meshwright_free(plan);
    meshwright_free(again);
    meshwright_free(NULL);
}

static void a_caller_of_an_older_version_gets_what_it_knows(void **state)
{
    (void)state;
    struct meshwright *plan = meshwright_new();
    struct meshwright_figures figures = {.struct_bytes = 16, .gpu_count = 77};
    assert_int_equal(meshwright_figures(plan, &figures), MESHWRIGHT_IMPOSSIBLE);
    assert_int_equal(meshwright_plan(plan, QUESTION), MESHWRIGHT_YES);
    assert_int_equal(meshwright_figures(plan, &figures), MESHWRIGHT_YES);
    assert_true(figures.step_s > 0 && figures.gpu_count == 77);
    figures.struct_bytes = 0;
    assert_int_equal(meshwright_figures(plan, &figures), MESHWRIGHT_IMPOSSIBLE);
    assert_string_equal(meshwright_error(plan), "figures: struct_bytes is not set");
    meshwright_free(plan);
}

static void what_is_wrong_is_told_as_text(void **state)
{
    static const struct {
        const char *question, *wanted;
        int status;
    } CASES[] = {
        {"{", "question:1:2: ", MESHWRIGHT_WRONG_INPUT},
        {"{\"model\": \"gpt2\"}", "question:1:1: $: missing \"cluster\", \"seq_len\"",
         MESHWRIGHT_WRONG_INPUT},
        {"{\"model\": \"gpt9\", \"cluster\": \"dgx-h100\", \"seq_len\": 8, \"global_batch\": 8}",
         "no model is called \"gpt9\"", MESHWRIGHT_WRONG_INPUT},
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100\", \"seq_len\": 512, \"global_batch\": 8, "
         "\"precision\": \"bf17\"}",
         "bf17 is no precision", MESHWRIGHT_WRONG_INPUT},
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100\", \"seq_len\": 512, \"global_batch\": 8, "
         "\"pins\": {\"tq\": 8}}",
         "tq", MESHWRIGHT_IMPOSSIBLE},
        {"{\"model\": \"llama-3-70b\", \"cluster\": \"rtx4090-pcie8\", \"seq_len\": 4096, "
         "\"global_batch\": 8}",
         "fits", MESHWRIGHT_NO},
    };
    (void)state;
    struct meshwright *plan = meshwright_new();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int status = meshwright_plan(plan, CASES[i].question);
        if (status != CASES[i].status || !strstr(meshwright_error(plan), CASES[i].wanted))
            fail_msg("case %zu: %d, \"%s\"", i, status, meshwright_error(plan));
        assert_string_equal(meshwright_text(plan), "");
    }
    assert_int_equal(meshwright_load(plan, "/nowhere.json"), MESHWRIGHT_WRONG_INPUT);
    assert_int_equal(meshwright_what_if(plan, "{}"), MESHWRIGHT_IMPOSSIBLE);
    assert_string_equal(meshwright_error(plan), "no plan is there: load or plan one first");
    assert_int_equal(meshwright_save(plan, "/tmp/never.json"), MESHWRIGHT_IMPOSSIBLE);
    assert_int_equal(meshwright_plan(plan, NULL), MESHWRIGHT_WRONG_INPUT);
    meshwright_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_made_saved_loaded_and_asked),
        cmocka_unit_test(a_caller_of_an_older_version_gets_what_it_knows),
        cmocka_unit_test(what_is_wrong_is_told_as_text),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
