#include "library/inquiry.h"
#include "library/meshwright.h"
#include "tests/support/test.h"

#include <stdio.h>
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

// What a command prints, without what it says on the way.
static const char *printed(struct arena *arena, const char *options)
{
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    enum { MOST = 1 << 20 };
    char *text = ARENA_NEW(arena, char, MOST);
    FILE *pipe = popen(arena_print(arena, "%s/meshwright %s 2>/dev/null", build, options), "r");
    assert_non_null(pipe);
    text[fread(text, 1, MOST - 1, pipe)] = '\0';
    pclose(pipe);
    return text;
}

// The same question as an object and as options gets the same bytes, and so does the plan when it
// is read again: the band of one that was chosen from many is wider.
static void the_library_and_the_command_answer_alike(void **state)
{
    static const struct {
        const char *question, *options;
    } CASES[] = {
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-a100-80g\", \"seq_len\": 512, "
         "\"global_batch\": 16}",
         "gpt2 dgx-a100-80g --seq-len 512 --global-batch 16"},
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100-x4\", \"nodes\": 2, \"gpus\": 12, "
         "\"seq_len\": 1024, \"global_batch\": 48, \"precision\": \"fp16\", \"optimizer\": "
         "\"lamb\", \"tokens\": 1e9, \"stack\": \"megatron-core\", \"pins\": {\"tp\": "
         "\"1..2\", \"recompute\": \"full\"}}",
         "gpt2 dgx-h100-x4 --nodes 2 --gpus 12 --seq-len 1024 --global-batch 48 --precision fp16 "
         "--optimizer lamb --tokens 1e9 --stack megatron-core --tp 1..2 --recompute full"},
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100\", \"seq_len\": 512, \"global_batch\": "
         "16, \"objective\": \"memory\"}",
         "gpt2 dgx-h100 --seq-len 512 --global-batch 16 --objective memory"},
    };
    struct arena *arena = *state;
    const char *path = arena_print(arena, "/tmp/meshwright-alike-%d.json", (int)getpid());
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    // Builds for other purposes have no binary.
    if (access(arena_print(arena, "%s/meshwright", build), X_OK) != 0) return;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct meshwright *plan = meshwright_new();
        assert_int_equal(meshwright_plan(plan, CASES[i].question), MESHWRIGHT_YES);
        assert_true((strstr(meshwright_notes(plan), "stack not given, taking ") != NULL) ==
                    (strstr(CASES[i].options, "--stack") == NULL));
        const char *made = arena_copy(arena, meshwright_text(plan));
        assert_string_equal(made, printed(arena, arena_print(arena, "plan %s --json --force -o %s",
                                                             CASES[i].options, path)));
        assert_int_equal(meshwright_load(plan, path), MESHWRIGHT_YES);
        assert_string_equal(meshwright_text(plan), made);
        assert_int_equal(meshwright_simulate(plan), MESHWRIGHT_YES);
        assert_string_equal(meshwright_text(plan),
                            printed(arena, arena_print(arena, "simulate %s --json", path)));
        assert_string_equal(meshwright_notes(plan), "");
        meshwright_free(plan);
    }
    unlink(path);
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
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100\", \"seq_len\": 512, \"global_batch\": 8, "
         "\"objective\": \"fun\"}",
         "$.objective: expected time, cost or memory", MESHWRIGHT_WRONG_INPUT},
        {"{\"model\": \"llama-3-70b\", \"cluster\": \"rtx4090-pcie8\", \"seq_len\": 4096, "
         "\"global_batch\": 8}",
         "fits", MESHWRIGHT_NO},
        {"{\"model\": \"gpt2\", \"cluster\": \"dgx-h100\", \"seq_len\": 512, \"global_batch\": 8, "
         "\"pins\": {\"tp\": 5, \"dp\": 1, \"pp\": 1}}",
         "tp 5", MESHWRIGHT_IMPOSSIBLE},
    };
    (void)state;
    struct meshwright *plan = meshwright_new();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int status = meshwright_plan(plan, CASES[i].question);
        if (status != CASES[i].status || !strstr(meshwright_error(plan), CASES[i].wanted))
            fail_msg("case %zu: %d, \"%s\"", i, status, meshwright_error(plan));
        assert_string_equal(meshwright_text(plan), "");
        assert_null(strstr(meshwright_error(plan), "--"));
    }
    assert_int_equal(meshwright_load(plan, "/nowhere.json"), MESHWRIGHT_WRONG_INPUT);
    assert_int_equal(meshwright_what_if(plan, "{}"), MESHWRIGHT_IMPOSSIBLE);
    assert_string_equal(meshwright_error(plan), "no plan is there: load or plan one first");
    assert_int_equal(meshwright_save(plan, "/tmp/never.json"), MESHWRIGHT_IMPOSSIBLE);
    assert_int_equal(meshwright_plan(plan, NULL), MESHWRIGHT_WRONG_INPUT);
    meshwright_free(plan);
}

static void options_are_named_as_members(void **state)
{
    static const char *const CASES[][2] = {
        {"--seq-len not given, taking 4096", "seq_len not given, taking 4096"},
        {"no plan (--gpus 6): --tp 4 --micro-batch 2 has",
         "no plan (gpus 6): tp 4 micro_batch 2 has"},
        {"a--b: \"--tp\" -- and --8", "a--b: \"--tp\" -- and --8"},
        {"say --", "say --"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(inquiry_members(arena_copy(*state, CASES[i][0])), CASES[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_made_saved_loaded_and_asked),
        cmocka_unit_test(the_library_and_the_command_answer_alike),
        cmocka_unit_test(a_caller_of_an_older_version_gets_what_it_knows),
        cmocka_unit_test(what_is_wrong_is_told_as_text),
        cmocka_unit_test(options_are_named_as_members),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
