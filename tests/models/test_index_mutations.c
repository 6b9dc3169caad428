#include "tests/support/test.h"

#include "tests/support/index_sets.h"
#include "tests/support/mutate.h"
#include "tests/support/random_case.h"

// A proof that can fail: each collective of some random blocks is removed, doubled, or changed, and
// the brute force over index sets sees every one of them.

enum { CASES = 8 };

// A gradient that is only summed up into those of parameters may as well stay in parts: they are
// reduced at the end of the step.
static bool is_idle(const struct block_program *program, int at)
{
    int output = program->instrs[at].outputs[0];
    if (program->instrs[at].collective != COLLECTIVE_REDUCE_SCATTER) return false;
    if (program->buffers[output].external) return false;
    for (int i = at + 1; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        for (int n = 0; n < instr->input_count; n++) {
            bool sums = instr->kind == OP_REDUCE || instr->kind == OP_GATHER_BACKWARD;
            if (instr->inputs[n] == output && !(sums && instr->phase == PHASE_WEIGHT)) return false;
        }
    }
    return true;
}

static int check_mutants(struct arena *arena, struct draw *draw, const struct random_case *drawn,
                         int at, int counts[MUTATION_COUNT])
{
    int missed = 0;
    for (int mutation = 0; mutation < MUTATION_COUNT; mutation++) {
        struct arena_mark mark = arena_mark(arena);
        struct sets_case task = random_case_sets(drawn);
        bool is_harmless = mutation == MUTATION_REMOVE && is_idle(drawn->program, at);
        if (is_harmless) continue;
        task.program =
            mutate(arena, draw, &drawn->mesh, drawn->program, at, (enum mutation)mutation);
        if (task.program) {
            struct sets_result result = sets_check(arena, &task);
            counts[mutation]++;
            if (result.violation_count == 0) {
                const struct instr *instr = &drawn->program->instrs[at];
                int tensor = drawn->program->buffers[instr->inputs[0]].tensor;
                printf("# nobody saw instruction %d, %s of %s over axes %x, %s\n", at,
                       collective_name(instr->collective),
                       tensor < 0 ? "a flat buffer" : drawn->program->block->tensors[tensor].name,
                       instr->axes, mutation_name((enum mutation)mutation));
                missed++;
            }
        }
        arena_reset(arena, mark);
    }
    return missed;
}

static void no_collective_can_be_changed_unseen(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("mutations", 20261122);
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int count = wanted ? atoi(wanted) : CASES, counts[MUTATION_COUNT] = {0}, missed = 0;
    for (int i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct random_case *drawn = ARENA_NEW(arena, struct random_case, 1);
        random_case_draw(arena, &draw, drawn);
        struct sets_case task = random_case_sets(drawn);
        assert_string_equal(sets_check(arena, &task).text, "");
        int before = missed;
        for (int at = 0; at < drawn->program->instr_count; at++) {
            if (!drawn->program->instrs[at].collective) continue;
            missed += check_mutants(arena, &draw, drawn, at, counts);
        }
        if (before == 0 && missed > 0) random_case_print(drawn, i);
        arena_reset(arena, mark);
    }
    for (int mutation = 0; mutation < MUTATION_COUNT; mutation++) {
        printf("# %d collectives %s\n", counts[mutation], mutation_name((enum mutation)mutation));
        assert_true(counts[mutation] > 0);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_collective_can_be_changed_unseen),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
