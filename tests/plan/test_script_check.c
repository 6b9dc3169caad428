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

// The first value that a stage makes, put where it cannot be: what is said of it.
static void values_outside_the_arena_are_told_as_that(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 2, 2, &of);
    script_case_write(&of);
    struct script *script = of.scripts[0];
    struct script_operand *operand = NULL;
    for (int t = 0; t < script->task_count && !operand; t++) {
        struct script_task *task = &script->tasks[t];
        if (task->kind == TASK_INSTR && task->output_count > 0 &&
            task->outputs[0].place == PLACE_ARENA && task->outputs[0].bytes > 0)
            operand = &task->outputs[0];
    }
    assert_non_null(operand);
    const struct script_operand right = *operand;
    int64_t end = script->arena_bytes, step = script->alignment;
    int64_t last = (end - right.bytes) / step * step;
    const struct {
        int64_t offset;
        const char *words;
    } wrong[] = {
        {-step, "is outside the arena"},
        {last + step, "is outside the arena"},
        {end / step * step + step, "is outside the arena"},
        {step / 2, "is not aligned to"},
    };
    struct err err = {0};
    assert_true(is_right(&of, &err));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        operand->offset = wrong[i].offset;
        err = (struct err){0};
        assert_false(is_right(&of, &err));
        if (!strstr(err.text, wrong[i].words)) fail_msg("%s", err.text);
        *operand = right;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_scripts_of_random_plans_pass),
        cmocka_unit_test(right_scripts_of_scheduled_plans_pass),
        cmocka_unit_test(values_outside_the_arena_are_told_as_that),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
