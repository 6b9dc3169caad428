#include "plan/script/check.h"

#include "memory/plan_script.h"
#include "tests/support/script_case.h"
#include "tests/support/script_change.h"
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

// But for where their values are two scripts are one.
static bool is_same_work(const struct script *a, const struct script *b)
{
    if (a->task_count != b->task_count) return false;
    for (int t = 0; t < a->task_count; t++) {
        const struct script_task *x = &a->tasks[t], *y = &b->tasks[t];
        if (x->kind != y->kind || x->chunk != y->chunk || x->position != y->position ||
            x->micro_batch != y->micro_batch || x->slot != y->slot || x->block != y->block ||
            x->instr != y->instr || x->input_count != y->input_count ||
            x->output_count != y->output_count || x->channel != y->channel ||
            x->bucket != y->bucket || x->in_graph != y->in_graph)
            return false;
    }
    return true;
}

// A step of which a few micro-batches were scheduled does what one scheduled whole does. Returns
// whether it has more of them than that.
static bool check_cut(struct script_case *of)
{
    int stages = of->program->shape.stage_count;
    int count = of->program->shape.micro_batch_count + 4 * stages;
    if (stages == 1 || !stage_slots_is_legal(of->program, count)) return false;
    of->program = memcpy(ARENA_NEW(of->arena, struct program, 1), of->program, sizeof *of->program);
    of->program->shape.micro_batch_count = count;
    script_case_write(of);
    struct script **whole = of->scripts;
    of->is_cut = true;
    script_case_write(of);
    struct err err = {0};
    bool right = is_right(of, &err), is_cut = false;
    for (int stage = 0; stage < stages && right; stage++) {
        right = is_same_work(whole[stage], of->scripts[stage]);
        is_cut = is_cut || stage_slots_cut(of->arena, of->program, stage) < count;
    }
    if (right) return is_cut;
    script_case_print(of);
    fail_msg("cut: %s", err.kind ? err.text : "other tasks");
    return false;
}

static void right_scripts_of_random_plans_pass(void **state)
{
    (void)state;
    struct draw draw = draw_start("scripts", 5);
    int done = 0, cut = 0, wanted = script_case_count(50);
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
            cut += done % 8 == 0 && check_cut(&of);
        }
        arena_free(&arena);
    }
    assert_true(cut > 0);
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

// What all ranks of a stage do together is there once.
static void a_norm_that_is_there_twice_is_told(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 1, 2, &of);
    script_case_write(&of);
    struct script *script = of.scripts[0];
    struct err err = {0};
    int norm = -1;
    for (int t = 0; t < script->task_count; t++)
        if (script->tasks[t].kind == TASK_NORM) norm = t;
    assert_true(norm >= 0 && is_right(&of, &err));
    script_change_insert(*state, script, norm + 1, script->tasks[norm]);
    assert_false(is_right(&of, &err));
    if (!strstr(err.text, "is there twice")) fail_msg("%s", err.text);
}

static bool has_dim(const struct block_program *block, int buffer, enum dim dim)
{
    int tensor = block->buffers[buffer].tensor;
    return tensor >= 0 && tensor_find_dim(&block->block->tensors[tensor], dim) >= 0;
}

// The two parts of tp change places in all that has kv heads: each axis for itself is as before.
static void swap_key_axes(struct block_program *block)
{
    for (int b = 0; b < block->buffer_count; b++) {
        int8_t *parts = block->buffers[b].layout.of, first = parts[0];
        if (!has_dim(block, b, DIM_KV_HEAD)) continue;
        parts[0] = parts[1];
        parts[1] = first;
    }
    for (int i = 0; i < block->instr_count; i++) {
        struct instr *instr = &block->instrs[i];
        bool is_one = instr->axes == 1 || instr->axes == 2;
        if (instr->collective && is_one && has_dim(block, instr->inputs[0], DIM_KV_HEAD))
            instr->axes ^= 3;
    }
}

// With 8 query heads, 2 kv heads and 4 ranks, ranks 0 and 1 have the queries of the first kv head.
static void keys_of_other_queries_are_told(void **state)
{
    struct script_case of;
    struct err err = {0};
    script_case_tensor(*state, "tests/data/config_variants/arcee-base.json", 4, &of);
    assert_int_equal(of.program->mesh.axes[1].size, 2);
    assert_true(is_right(&of, &err));
    for (int b = 0; b < of.program->block_count; b++)
        swap_key_axes((struct block_program *)of.program->blocks[b]);
    assert_false(is_right(&of, &err));
    if (!strstr(err.text, "is not of the heads of the queries that read it"))
        fail_msg("%s", err.text);
}

// An exchange over the outer axis of a dim and a slice over the inner one behind it change places:
// each is a change of its axis, and the rank has rows of another. False where there are none.
static bool slice_first(const struct program *program, struct block_program *block)
{
    for (int i = 0; i + 1 < block->instr_count; i++) {
        struct instr *one = &block->instrs[i], *two = one + 1;
        if (one->collective != COLLECTIVE_ALL_TO_ALL || two->collective != COLLECTIVE_SLICE ||
            two->inputs[0] != one->outputs[0])
            continue;
        struct buffer *from = &block->buffers[one->inputs[0]];
        struct buffer *between = &block->buffers[two->inputs[0]];
        const struct buffer *to = &block->buffers[two->outputs[0]];
        struct instr first = *two;
        first.inputs[0] = one->inputs[0];
        first.outputs[0] = one->outputs[0];
        two->collective = one->collective;
        two->axes = one->axes;
        *one = first;
        for (int a = 0; a < program->mesh.axis_count; a++)
            between->layout.of[a] = one->axes >> a & 1 ? to->layout.of[a] : from->layout.of[a];
        between->bytes = from->bytes / mesh_size(&program->mesh, one->axes);
        return true;
    }
    return false;
}

static void rows_of_other_ranks_are_told(void **state)
{
    struct script_case of;
    struct err err = {0};
    script_case_tensor(*state, "tests/data/config_variants/olmo2-base.json", 4, &of);
    assert_true(is_right(&of, &err));
    bool is_planted = false;
    for (int b = 0; b < of.program->block_count && !is_planted; b++)
        is_planted = slice_first(of.program, (struct block_program *)of.program->blocks[b]);
    assert_true(is_planted);
    assert_false(is_right(&of, &err));
    if (!strstr(err.text, "all-to-all does not change to what is read")) fail_msg("%s", err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_scripts_of_random_plans_pass),
        cmocka_unit_test(right_scripts_of_scheduled_plans_pass),
        cmocka_unit_test(values_outside_the_arena_are_told_as_that),
        cmocka_unit_test(a_norm_that_is_there_twice_is_told),
        cmocka_unit_test(keys_of_other_queries_are_told),
        cmocka_unit_test(rows_of_other_ranks_are_told),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
