#include "memory/stage_block.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

// A block's instructions as steps that read and write values: what each has to follow.

static bool is_among(const int *items, int count, int item)
{
    for (int i = 0; i < count; i++)
        if (items[i] == item) return true;
    return false;
}

// The operator that an exchange is inside of, or -1.
static int around(const struct block_program *block, int index)
{
    const struct instr *instr = &block->instrs[index];
    if (instr->inner == 0) return -1;
    int at = index - 1;
    while (block->instrs[at].op != instr->op || block->instrs[at].collective != COLLECTIVE_NONE)
        at--;
    return at;
}

static void check_values(const struct block_steps *steps, int index)
{
    const struct block_program *block = steps->program;
    const struct instr *instr = &block->instrs[index];
    const struct block_step *step = &steps->steps[index];
    for (int i = 0; i < instr->input_count; i++) {
        int value = step->input_values[i];
        if (block->buffers[instr->inputs[i]].external) continue;
        assert_in_range(value, 0, steps->value_count - 1);
        assert_int_equal(steps->values[value].buffer, instr->inputs[i]);
        // An exchange that fills what nobody has made yet makes it.
        assert_true(is_among(step->reads, step->read_count, value) ||
                    (instr->inner > 0 && is_among(step->writes, step->write_count, value)));
    }
    for (int i = 0; i < instr->output_count; i++) {
        int value = step->output_values[i];
        if (block->buffers[instr->outputs[i]].external) continue;
        assert_in_range(value, 0, steps->value_count - 1);
        assert_int_equal(steps->values[value].buffer, instr->outputs[i]);
        assert_true(is_among(step->writes, step->write_count, value));
    }
}

// An exchange follows its operator and those inside it before; one that sums holds what the
// operator has.
static int check_exchange(const struct block_steps *steps, int index, int *last)
{
    const struct instr *instr = &steps->program->instrs[index];
    const struct block_step *step = &steps->steps[index];
    int op = around(steps->program, index);
    assert_int_equal(step->is_inside, op >= 0);
    if (op < 0) return 0;
    assert_true(is_among(step->after, step->after_count, op));
    if (last[op] >= 0) assert_true(is_among(step->after, step->after_count, last[op]));
    last[op] = index;
    const struct block_step *held = &steps->steps[op];
    for (int i = 0; i < held->read_count && instr->collective == COLLECTIVE_ALL_REDUCE; i++)
        assert_true(is_among(step->reads, step->read_count, held->reads[i]));
    for (int i = 0; i < held->write_count && instr->collective == COLLECTIVE_ALL_REDUCE; i++)
        assert_true(is_among(step->reads, step->read_count, held->writes[i]));
    return 1;
}

// Every instruction stands once in the order of its phase, W behind the B that it follows or apart.
static void check_orders(struct arena *arena, const struct block_steps *steps, bool is_parted)
{
    const struct block_program *block = steps->program;
    const int *orders[] = {steps->forward, steps->backward, steps->weight};
    int counts[] = {steps->forward_count, steps->backward_count, steps->weight_count};
    int *seen = ARENA_NEW(arena, int, steps->step_count);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < counts[k]; i++) {
            int step = orders[k][i];
            seen[step]++;
            if (step >= block->instr_count) continue;
            int phase = (int)block->instrs[step].phase;
            assert_int_equal(phase == PHASE_FORWARD, k == 0);
            if (is_parted) assert_int_equal(phase, k);
        }
    }
    for (int i = 0; i < block->instr_count; i++)
        assert_int_equal(seen[i], 1);
    for (int s = block->instr_count; s < steps->step_count; s++)
        assert_int_equal(seen[s], s != steps->copy_out);
    assert_int_equal(steps->weight_count > 0,
                     is_parted && block->phase_first[PHASE_WEIGHT] < block->instr_count);
}

struct asked {
    const char *model;
    int tp, ep, zero;
    enum schedule_kind schedule;
    unsigned moved;
    int exchanges, rooms, copies;  // of all blocks
};

static void check_steps(struct arena *arena, const struct asked *asked)
{
    struct priced of = priced_start(arena, asked->model, "dgx-a100-80g", "meshwright");
    of.parallel.degree[AXIS_TP] = asked->tp;
    of.parallel.degree[AXIS_EP] = asked->ep;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.zero = asked->zero;
    of.parallel.schedule = asked->schedule;
    priced_finish(&of);
    bool is_parted = !schedule_row(asked->schedule)->backward_fused;
    int exchanges = 0, rooms = 0, copies = 0;
    for (int b = 0; b < of.program->block_count; b++) {
        const struct block_program *block = of.program->blocks[b];
        const struct block_steps *steps = block_steps_make(arena, of.program, block, asked->moved);
        int *last = ARENA_NEW(arena, int, block->instr_count);
        for (int i = 0; i < block->instr_count; i++)
            last[i] = -1;
        for (int i = 0; i < block->instr_count; i++) {
            assert_int_equal(steps->steps[i].kind, TASK_INSTR);
            assert_int_equal(steps->steps[i].instr, i);
            check_values(steps, i);
            exchanges += check_exchange(steps, i, last);
        }
        for (int s = block->instr_count; s < steps->step_count; s++)
            rooms += steps->steps[s].kind == TASK_ROOM;
        copies += steps->copy_out >= 0;
        assert_int_equal(steps->copy_out >= 0, steps->copy_in >= 0);
        check_orders(arena, steps, is_parted);
    }
    assert_int_equal(exchanges, asked->exchanges);
    assert_int_equal(rooms, asked->rooms);
    assert_int_equal(copies, asked->copies);
}

// Three exchanges are inside the loss over a split vocabulary, one tells how many rows each expert
// gets. Blocks of gradients in shards have room for them: embedding, layer, head; of experts one of
// their own.
static void steps_follow_what_they_need(void **state)
{
    static const struct asked CASES[] = {
        {"gpt2", 1, 1, 0, SCHEDULE_1F1B, 0, 0, 0, 0},
        {"gpt2", 2, 1, 2, SCHEDULE_ZB_H1, 0, 3, 3, 0},
        {"gpt2", 2, 1, 3, SCHEDULE_1F1B, 1, 3, 3, 2},
        {"mixtral-8x7b", 2, 2, 1, SCHEDULE_1F1B, 0, 3, 0, 0},
        {"mixtral-8x7b", 1, 2, 3, SCHEDULE_ZB_H1, 0, 1, 4, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check_steps(*state, &CASES[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_what_they_need),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
