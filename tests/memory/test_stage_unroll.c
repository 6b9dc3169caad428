#include "memory/plan_script.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

// Steps out of a few of their micro-batches. That the scripts written so do what those of whole
// steps do is in tests/plan/test_script_check.c.

// 1F1B on two stages, by hand: the cut step; the whole one, what is repeated in brackets.
static void slots_of_the_middle_are_repeated(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 2, 5, &of);
    // F0 F1 B0 F2 B1 B2; F0 F1 B0 F2 (B1 F3 B2 F4) B3 B4
    static const int FIRST[] = {0, 1, 2, 3, 2, 3, 2, 3, 4, 5};
    // F0 B0 F1 B1; F0 B0 (F1 B1 F2 B2 F3 B3) F4 B4
    static const int LAST[] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3};
    for (int stage = 0; stage < 2; stage++) {
        struct stage_unroll unroll;
        struct stage_slots cut = stage_slots_of(*state, of.program, stage, 3 - stage);
        assert_true(stage_unroll(*state, of.program, stage, &cut, &unroll));
        assert_int_equal(unroll.slots.count, 10);
        assert_int_equal(unroll.round_micro_batches, 1);
        assert_memory_equal(unroll.like, stage ? LAST : FIRST, sizeof FIRST);
    }
}

// With one micro-batch no round has another behind it.
static void steps_too_short_to_repeat_are_told(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 2, 5, &of);
    struct stage_unroll unroll;
    struct stage_slots cut = stage_slots_of(*state, of.program, 0, 1);
    assert_false(stage_unroll(*state, of.program, 0, &cut, &unroll));
    cut = stage_slots_of(*state, of.program, 1, 1);
    assert_false(stage_unroll(*state, of.program, 1, &cut, &unroll));
}

// What lives within the work of one micro-batch has the place of that of `like`, which must be one
// from its first slot to its last. By every schedule of one chunk and every cut.
static void no_micro_batch_works_across_a_joint(void **state)
{
    int joints = 0;
    struct script_case of;
    script_case_gpt2(*state, 2, 13, &of);
    for (int kind = 0; kind < SCHEDULE_KIND_COUNT; kind++) {
        of.program->parallel.schedule = (enum schedule_kind)kind;
        for (int i = 0; i < 24 && stage_slots_is_legal(of.program, 13); i++) {
            struct stage_unroll unroll;
            int count = 1 + i / 2, stage = i % 2;
            if (!stage_slots_is_legal(of.program, count)) continue;
            struct stage_slots cut = stage_slots_of(*state, of.program, stage, count);
            if (!stage_unroll(*state, of.program, stage, &cut, &unroll)) continue;
            for (int s = 1; s < unroll.slots.count; s++) {
                if (unroll.like[s] == unroll.like[s - 1] + 1) continue;
                const struct stage_slot *slots = unroll.slots.slots;
                assert_int_not_equal(slots[s].micro_batch, slots[s - 1].micro_batch);
                joints++;
            }
        }
    }
    assert_true(joints > 100);
}

static double count_tasks(struct script *const *scripts, int stages)
{
    double count = 0;
    for (int s = 0; s < stages; s++)
        count += scripts[s]->task_count;
    return count;
}

// So many that graphs hold a few; 12 layers on two stages.
static void tasks_of_rounds_left_out_are_counted(void **state)
{
    enum { MICRO_BATCHES = 300 };
    struct arena scratch = {0};
    struct script_case of;
    script_case_gpt2(*state, 2, MICRO_BATCHES, &of);
    const struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 64};
    struct err err = {0};
    bool is_planned;
    double count;
    int written;
    assert_true(
        plan_scripts_verify(*state, of.program, of.stack, NULL, &options, &count, &written, &err));
    assert_in_range(written, 9, 12);
    struct script **scripts = plan_scripts_make(*state, &scratch, of.program, of.stack, NULL,
                                                &options, &is_planned, &err);
    assert_non_null(scripts);
    assert_true(count == count_tasks(scripts, 2));
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_the_middle_are_repeated),
        cmocka_unit_test(steps_too_short_to_repeat_are_told),
        cmocka_unit_test(no_micro_batch_works_across_a_joint),
        cmocka_unit_test(tasks_of_rounds_left_out_are_counted),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
