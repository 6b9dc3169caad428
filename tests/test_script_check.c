#include "plan/script_check.h"

#include "tests/script_case.h"
#include "tests/test.h"

static const struct script *const *read_only(struct script **scripts)
{
    return (const struct script *const *)scripts;
}

static void right_scripts_of_random_plans_pass(void **state)
{
    (void)state;
    struct draw draw = draw_start("scripts", 5);
    int done = 0, wanted = script_case_count(60);
    for (int tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 100 * wanted);
        if (script_case_draw(&arena, &draw, &of)) {
            done++;
            script_case_write(&of);
            struct err err = {0};
            int stages = of.program->shape.stage_count;
            if (!script_check(&arena, read_only(of.scripts), stages, &err)) {
                script_case_print(&of);
                fail_msg("%s", err.text);
            }
        }
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_scripts_of_random_plans_pass),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
