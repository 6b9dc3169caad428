#include "tests/support/test.h"

#include "tests/support/index_sets.h"
#include "tests/support/random_case.h"
#include "tests/support/tiny_models.h"

// Random blocks on random meshes, lowered, and carried out element by element: see index_sets.h.

enum { CASES = 200, CASES_A_MODEL = 8 };

static bool is_sound(struct arena *arena, const struct random_case *drawn, int number, bool first)
{
    struct sets_case task = random_case_sets(drawn);
    struct sets_result result = sets_check(arena, &task);
    if (result.violation_count == 0) return true;
    if (first) random_case_print(drawn, number);
    printf("# case %d: %s\n", number, result.text);
    return false;
}

static void every_element_is_where_it_is_needed(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("index sets", 20261121);
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int count = wanted ? atoi(wanted) : CASES, violated = 0;
    for (int i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct random_case *drawn = ARENA_NEW(arena, struct random_case, 1);
        random_case_draw(arena, &draw, drawn);
        violated += !is_sound(arena, drawn, i, violated == 0);
        arena_reset(arena, mark);
    }
    assert_int_equal(violated, 0);
}

static void it_is_in_the_blocks_of_models_too(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("index sets of models", 20261124);
    int violated = 0;
    for (int m = 0; TINY_MODELS[m]; m++) {
        for (int i = 0; i < CASES_A_MODEL; i++) {
            struct arena_mark mark = arena_mark(arena);
            struct import_options options = {
                .flash = draw_int(&draw, 0, 1), .dropout = true, .vocab_multiple = 4};
            struct graph *graph = tiny_graph(arena, TINY_MODELS[m], &options);
            // Of scans the forms are not written; tests/executor/test_run_scan.c judges them whole.
            if (graph->scan_head_count > 0) break;
            struct random_case *drawn = ARENA_NEW(arena, struct random_case, 1);
            random_case_draw_model(arena, &draw, graph, drawn);
            violated += !is_sound(arena, drawn, m, violated == 0);
            arena_reset(arena, mark);
        }
    }
    assert_int_equal(violated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_where_it_is_needed),
        cmocka_unit_test(it_is_in_the_blocks_of_models_too),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
