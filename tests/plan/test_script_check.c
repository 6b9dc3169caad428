#include "plan/script/check.h"

#include "memory/plan_script.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

// Right scripts pass, however their operators are ordered and their buffers placed.

static bool is_right(struct script_case *of, struct err *err)
{
    struct arena scratch = {0};
    bool right = script_check(&scratch, (const struct script *const *)of->scripts,
                              of->program->shape.stage_count, err);
    arena_free(&scratch);
    return right;
}

static void right_scripts_of_random_plans_pass(void **state)
{
    (void)state;
    struct draw draw = draw_start("scripts", 5);
    int done = 0, wanted = script_case_count(50);
    for (int tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 100 * wanted);
        if (script_case_draw(&arena, &draw, &of)) {
            done++;
            script_case_write(&of);
            struct err err = {0};
            if (!is_right(&of, &err)) {
                script_case_print(&of);
                fail_msg("%s", err.text);
            }
        }
        arena_free(&arena);
    }
}

// Whatever order and addresses the scheduler finds. plan_scripts_make checks what it makes.
static void right_scripts_of_scheduled_plans_pass(void **state)
{
    (void)state;
    struct draw draw = draw_start("scheduled", 9);
    int done = 0, wanted = script_case_count(30);
    for (int tries = 0; done < wanted; tries++) {
        struct arena arena = {0}, scratch = {0};
        struct script_case of;
        assert_true(tries < 100 * wanted);
        if (script_case_draw(&arena, &draw, &of)) {
            struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 64};
            done++;
            struct err err = {0};
            bool is_planned;
            if (!plan_scripts_make(&arena, &scratch, of.program, of.stack, NULL, &options,
                                   &is_planned, &err)) {
                script_case_print(&of);
                fail_msg("%s", err.text);
            }
        }
        arena_free(&arena);
        arena_free(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_scripts_of_random_plans_pass),
        cmocka_unit_test(right_scripts_of_scheduled_plans_pass),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
