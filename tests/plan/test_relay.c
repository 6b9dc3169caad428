#include "cost_models/collective.h"
#include "plan/held.h"
#include "plan/script/check.h"
#include "tests/support/priced.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <math.h>

// Gathers that are handed on rank by rank (plan/lower/relay.h): GPT-2 124M on 4 ranks of tp, 32
// tokens in fp32. A rank has 8 of the tokens and 3 of the 12 heads; a part has 8 * 768 numbers.

enum { RANKS = 4, SEQ = 32, HIDDEN = 768, PART_BYTES = SEQ / RANKS * HIDDEN * 4 };

static struct priced gpt2(struct arena *arena, bool relays)
{
    struct priced priced = priced_start(arena, "gpt2", "dgx-a100-80g", "meshwright");
    priced.parallel.degree[AXIS_TP] = RANKS;
    priced.parallel.sp = true;
    priced.parallel.tp_relay = relays;
    priced.workload =
        (struct workload){.seq_len = SEQ, .precision = PRECISION_FP32, .global_batch = 2};
    priced_finish(&priced);
    return priced;
}

static const struct block_program *layer(const struct priced *of)
{
    return priced_block(of, BLOCK_LAYER);
}

static int count(const struct block_program *block, enum collective collective, enum phase phase)
{
    int found = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        found += instr->collective == collective && instr->phase == phase && !instr->inner;
    }
    return found;
}

static double flop(const struct block_program *block)
{
    double sum = 0;
    for (int i = 0; i < block->instr_count; i++)
        sum += block->instrs[i].kind == OP_CONTRACT ? block->instrs[i].flop : 0;
    return sum;
}

// Forward two gathers, which q, k, v and up read, and as many for their weight gradients: three
// messages each. What backward gathers two products read, in B and in W.
static void a_gather_is_three_messages_of_four_ranks(void **state)
{
    struct priced on = gpt2(*state, true), off = gpt2(*state, false);
    const struct block_program *with = layer(&on), *without = layer(&off);
    assert_int_equal(count(without, COLLECTIVE_ALL_GATHER, PHASE_FORWARD), 2);
    assert_int_equal(count(without, COLLECTIVE_ALL_GATHER, PHASE_WEIGHT), 2);
    assert_int_equal(count(with, COLLECTIVE_ALL_GATHER, PHASE_FORWARD), 0);
    assert_int_equal(count(with, COLLECTIVE_ALL_GATHER, PHASE_WEIGHT), 0);
    assert_int_equal(count(with, COLLECTIVE_ALL_GATHER, PHASE_BACKWARD), 2);
    assert_int_equal(count(without, COLLECTIVE_SEND_RECV, PHASE_FORWARD), 0);
    assert_int_equal(count(with, COLLECTIVE_SEND_RECV, PHASE_FORWARD), 6);
    assert_int_equal(count(with, COLLECTIVE_SEND_RECV, PHASE_WEIGHT), 6);
    for (int i = 0; i < with->instr_count; i++) {
        const struct instr *instr = &with->instrs[i];
        if (instr->collective == COLLECTIVE_SEND_RECV) assert_int_equal(instr->bytes, PART_BYTES);
    }
    assert_true(flop(with) == flop(without));
}

// Of the first relay: the own part is multiplied beside the first message, and so on.
static void parts_are_worked_on_one_message_later(void **state)
{
    static const char *const READERS[] = {"q", "k", "v"};
    struct priced of = gpt2(*state, true);
    const struct block_program *block = layer(&of);
    int at = 0, behind = 0;
    while (block->instrs[at].relay == 0)
        at++;
    for (; behind < RANKS; behind++) {
        const struct instr *message = &block->instrs[at];
        if (behind + 1 < RANKS) {
            assert_int_equal(message->collective, COLLECTIVE_SEND_RECV);
            assert_int_equal(block->buffers[message->inputs[0]].behind, behind);
            assert_int_equal(block->buffers[message->outputs[0]].behind, behind + 1);
            at++;
        }
        for (int r = 0; r < 3; r++, at++) {
            const struct instr *work = &block->instrs[at];
            const char *name = strrchr(block->block->ops[work->op].name, '.') + 1;
            assert_int_equal(work->relay, 1);
            assert_int_equal(work->rows, 1);
            assert_string_equal(name, READERS[r]);
            assert_int_equal(block->buffers[work->inputs[0]].behind, behind);
            assert_int_equal(work->gemm.m, SEQ / RANKS);
            assert_int_equal(work->gemm.n, HIDDEN / RANKS);
            assert_int_equal(work->gemm.k, HIDDEN);
            // A part of x, a quarter of a quarter of the weight's, and so much of the result.
            assert_int_equal(work->read_bytes, PART_BYTES + HIDDEN * HIDDEN / RANKS * 4);
            assert_int_equal(work->write_bytes, PART_BYTES / RANKS);
        }
    }
    assert_int_equal(block->instrs[at].relay, 0);
}

// The one that is worked on and the one that comes.
static void two_parts_are_in_memory_at_a_time(void **state)
{
    struct priced of = gpt2(*state, true);
    const struct block_program *block = layer(&of);
    int most = 0;
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        int alive = 0;
        for (int b = 0; b < block->buffer_count; b++) {
            const struct buffer *buffer = &block->buffers[b];
            if (!buffer->behind) continue;
            assert_int_equal(buffer->bytes, PART_BYTES);
            alive += buffer->birth <= i && i < buffer->death;
        }
        if (alive > most) most = alive;
    }
    assert_int_equal(most, 2);
}

// Axes of 2 and 3, of which the inner one has neighbours next to each other: 0 3 1 4 2 5 is how the
// ranks of strides 3 and 1 stand, where the axis of stride 3 is the inner one.
static void members_stand_in_the_order_of_the_axes(void **state)
{
    (void)state;
    struct mesh mesh = {.axes = {{.size = 2, .stride = 3}, {.size = 3, .stride = 1}},
                        .axis_count = 2,
                        .rank_count = 6};
    static const int ORDER[] = {0, 3, 1, 4, 2, 5};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(held_rank_over(&mesh, 3, i, 4), ORDER[i]);
        assert_int_equal(held_rank_before(&mesh, 3, 1, ORDER[i]), ORDER[(i + 5) % 6]);
        assert_int_equal(held_rank_before(&mesh, 3, -1, ORDER[i]), ORDER[(i + 1) % 6]);
        assert_int_equal(held_rank_before(&mesh, 3, 8, ORDER[i]), ORDER[(i + 4) % 6]);
    }
    assert_int_equal(held_rank_before(&mesh, 1, 1, 1), 4);
    assert_int_equal(held_rank_before(&mesh, 2, 1, 3), 5);
}

// What is hidden of forward is of each message what the work behind it takes, or all of it.
static void a_message_costs_what_its_work_does_not_cover(void **state)
{
    struct priced of = gpt2(*state, true);
    const struct block_program *block = layer(&of);
    double hidden_s = 0;
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_SEND_RECV) continue;
        const struct group_shape group = mesh_group(&of.program->mesh, of.cluster, instr->axes);
        double s = collective_price(of.fabrics, &group, COLLECTIVE_SEND_RECV, PART_BYTES, 1).s;
        double beside_s = 0;
        for (int k = i + 1; block->instrs[k].relay && !block->instrs[k].collective; k++)
            beside_s += compute_price(&of.context.compute, block, &block->instrs[k]).s;
        assert_true(s > 0 && beside_s > 0);
        hidden_s += s < beside_s ? s : beside_s;
    }
    struct block_price waits = block_price(&of.context, &of.program->mesh, block, 0);
    struct block_price hides = block_price(&of.context, &of.program->mesh, block, OVERLAP_TP);
    double found_s = waits.phase_s[PHASE_FORWARD][PART_TP] - hides.phase_s[PHASE_FORWARD][PART_TP];
    assert_true(fabs(found_s - hidden_s) < 1e-9 * hidden_s);
}

static bool is_right(const struct script_case *of, struct err *err)
{
    struct arena scratch = {0};
    bool right = script_check(&scratch, (const struct script *const *)of->scripts, 1, err);
    arena_free(&scratch);
    return right;
}

// Each of these, alone, in a plan that is right without.
enum { FAULT_ORDER, FAULT_AXES, FAULT_TWICE, FAULT_LEFT_OUT, FAULT_COUNT };
static void plant(struct block_program *block, int fault)
{
    struct instr *message = NULL, *first = NULL;
    for (int i = 0; i < block->instr_count && !first; i++) {
        if (block->instrs[i].relay && block->instrs[i].collective && !message)
            message = &block->instrs[i];
        if (block->instrs[i].rows && block->buffers[block->instrs[i].inputs[0]].behind)
            first = &block->instrs[i];
    }
    assert_non_null(first);
    switch (fault) {
    case FAULT_ORDER:
        block->buffers[message->outputs[0]].behind = 2;
        break;
    case FAULT_AXES:
        block->buffers[message->outputs[0]].relay_axes = 0;
        break;
    case FAULT_TWICE:
        first->inputs[0] = message->inputs[0];
        break;
    case FAULT_LEFT_OUT:
        first->rows = 0;
        break;
    default:
        fail();
    }
}

static void wrong_parts_are_found(void **state)
{
    static const char *const SAID[FAULT_COUNT] = {"send-recv", "send-recv", "worked on once",
                                                  "worked on once"};
    for (int fault = -1; fault < FAULT_COUNT; fault++) {
        struct script_case of = {.arena = *state, .model = -1};
        struct priced priced = gpt2(*state, true);
        of.program = priced.program;
        script_case_keep(&priced, &of);
        script_case_write(&of);
        if (fault >= 0) plant((struct block_program *)(uintptr_t)layer(&priced), fault);
        struct err err = {0};
        bool right = is_right(&of, &err);
        assert_int_equal(right, fault < 0);
        if (fault >= 0 && !strstr(err.text, SAID[fault])) fail_msg("%d: %s", fault, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gather_is_three_messages_of_four_ranks),
        cmocka_unit_test(parts_are_worked_on_one_message_later),
        cmocka_unit_test(two_parts_are_in_memory_at_a_time),
        cmocka_unit_test(members_stand_in_the_order_of_the_axes),
        cmocka_unit_test(a_message_costs_what_its_work_does_not_cover),
        cmocka_unit_test(wrong_parts_are_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
