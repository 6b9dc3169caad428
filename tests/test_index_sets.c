#include "tests/test.h"

#include "tests/index_sets.h"
#include "tests/random_case.h"

// Random blocks on random meshes, lowered, and carried out element by element: see index_sets.h.

enum { CASES = 1500 };

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
        struct sets_case task = random_case_sets(drawn);
        struct sets_result result = sets_check(arena, &task);
        if (result.violation_count) {
            if (violated++ == 0) random_case_print(drawn, i);
            printf("# case %d: %s\n", i, result.text);
        }
        arena_reset(arena, mark);
    }
    assert_int_equal(violated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_where_it_is_needed),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
