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

static struct priced gpt2(struct arena *arena, int parts)
{
    struct priced priced = priced_start(arena, "gpt2", "dgx-a100-80g", "meshwright");
    priced.parallel.degree[AXIS_TP] = RANKS;
    priced.parallel.sp = true;
    priced.parallel.tp_relay = parts;
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

// Forward two gathers, which q, k, v and up read, and two sums, of out and down; as many gathers
// for weight gradients, and two sums of gradients of what was gathered: three messages each. What
// backward gathers two products read, in B and in W.
static void a_gather_or_a_sum_is_three_messages_of_four_ranks(void **state)
{
    struct priced on = gpt2(*state, RANKS), off = gpt2(*state, 0);
    const struct block_program *with = layer(&on), *without = layer(&off);
    static const struct {
        enum phase phase;
        int gathers, sums, gathers_left;
    } PHASES[] = {{PHASE_FORWARD, 2, 2, 0}, {PHASE_BACKWARD, 2, 2, 2}, {PHASE_WEIGHT, 2, 0, 0}};
    for (int p = 0; p < 3; p++) {
        enum phase phase = PHASES[p].phase;
        int left = PHASES[p].gathers_left, sums = PHASES[p].sums;
        assert_int_equal(count(without, COLLECTIVE_ALL_GATHER, phase), PHASES[p].gathers);
        assert_int_equal(count(without, COLLECTIVE_REDUCE_SCATTER, phase), sums);
        assert_int_equal(count(without, COLLECTIVE_SEND_RECV, phase), 0);
        assert_int_equal(count(with, COLLECTIVE_ALL_GATHER, phase), left);
        assert_int_equal(count(with, COLLECTIVE_REDUCE_SCATTER, phase), 0);
        assert_int_equal(count(with, COLLECTIVE_SEND_RECV, phase),
                         3 * (PHASES[p].gathers - left + sums));
        assert_int_equal(count(with, COLLECTIVE_SLICE, phase), 3 * sums);
    }
    for (int i = 0; i < with->instr_count; i++) {
        const struct instr *instr = &with->instrs[i];
        if (instr->collective == COLLECTIVE_SEND_RECV) assert_int_equal(instr->bytes, PART_BYTES);
    }
    assert_true(flop(with) == flop(without));
}

// In two parts pairs of ranks gather one in front of a relay, or scatter it behind one; one message
// hands on half of what was handed on in four parts of a quarter each.
static void two_parts_of_four_ranks_are_of_pairs(void **state)
{
    struct priced of = gpt2(*state, 2);
    const struct block_program *block = layer(&of);
    const struct mesh *mesh = &of.program->mesh;
    assert_int_equal(count(block, COLLECTIVE_SEND_RECV, PHASE_FORWARD), 4);
    assert_int_equal(count(block, COLLECTIVE_ALL_GATHER, PHASE_FORWARD), 2);
    assert_int_equal(count(block, COLLECTIVE_REDUCE_SCATTER, PHASE_FORWARD), 2);
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!instr->collective) continue;
        assert_int_equal(instr->bytes, 2 * PART_BYTES);
        assert_int_equal(mesh_size(mesh, instr->axes), 2);
        int next = held_rank_before(mesh, instr->axes, -1, 0);
        assert_int_equal(next, instr->relay ? 2 : 1);
    }
    for (int i = 0; i < block->instr_count; i++)
        if (block->instrs[i].rows == 1 && block->instrs[i].phase == PHASE_FORWARD)
            assert_int_equal(block->instrs[i].gemm.m, SEQ / 2);
}

static const char *refusal(struct priced *of, enum precision precision)
{
    static struct err err;
    err = (struct err){0};
    of->workload.precision = precision;
    of->workload.seq_len = 48;
    of->cluster->rank_count = (int)parallel_rank_count(&of->parallel);
    bool is_right = program_check(of->graph, of->cluster, &of->workload, &of->parallel, &err);
    assert_int_equal(is_right, err.kind == ERR_NONE);
    return err.text;
}

static void parts_that_there_are_not_are_refused(void **state)
{
    struct priced of = gpt2(*state, RANKS);
    of.parallel.degree[AXIS_DP] = 1;
    assert_string_equal(refusal(&of, PRECISION_BF16), "");
    of.parallel.degree[AXIS_TP] = 6;
    assert_string_equal(refusal(&of, PRECISION_BF16),
                        "--tp-relay 4: tp 6 is not cut in so many parts; 6 always work");
    of.parallel.tp_relay = 3;
    assert_string_equal(refusal(&of, PRECISION_BF16), "");
    of.parallel.tp_relay = 8;
    assert_string_equal(refusal(&of, PRECISION_BF16), "");
    assert_string_equal(
        refusal(&of, PRECISION_FP8),
        "--tp-relay: not with --precision fp8 and fp4, whose casts are of all that tp gathers");
    // Threes share a head, and parts are of pairs.
    of.graph->kv_head_count = 4;
    of.parallel.degree[AXIS_TP] = 12;
    of.parallel.tp_relay = 6;
    assert_string_equal(refusal(&of, PRECISION_BF16),
                        "--tp-relay 6: tp 12 is not cut in so many parts; 12 always work");
}

// A grid of 2 x 2 as published: of the product that ends the MLP both operands are gathered, 3072
// columns of the tokens of a sequence, and of the matrix 3072 rows of 384 numbers. The larger is
// handed on in halves.
static void of_two_operands_the_larger_is_handed_on(void **state)
{
    static const int SEQS[] = {256, 1024};
    for (int s = 0; s < 2; s++) {
        struct priced of = priced_start(*state, "gpt2", "dgx-a100-80g", "meshwright");
        of.parallel.degree[AXIS_TP] = RANKS;
        of.parallel.tp_kind = TP_2D_SUMMA;
        of.parallel.tp_relay = of.parallel.micro_batch = 2;
        of.workload =
            (struct workload){.seq_len = SEQS[s], .precision = PRECISION_FP32, .global_batch = 4};
        priced_finish(&of);
        const struct block_program *block = layer(&of);
        int parts[PHASE_COUNT] = {0};
        for (int i = 0; i < block->instr_count; i++) {
            const struct instr *instr = &block->instrs[i];
            if (!instr->rows || instr->kind != OP_CONTRACT) continue;
            if (!strstr(block->block->ops[instr->op].name, "mlp.down")) continue;
            const struct buffer *part = &block->buffers[instr_part(instr)];
            bool is_matrix = block->block->tensors[part->tensor].role == TENSOR_PARAMETER;
            assert_int_equal(instr->dim, DIM_FFN);
            assert_int_equal(part->bytes, is_matrix ? 3072 * 768 : 4 * SEQS[s] * 3072 / 2);
            // A weight's gradient reads no matrix, that of the input no columns.
            assert_int_equal(is_matrix, instr->phase == PHASE_BACKWARD ||
                                            (instr->phase == PHASE_FORWARD && SEQS[s] < 384));
            parts[instr->phase]++;
        }
        assert_int_equal(parts[PHASE_FORWARD], 2);
        assert_int_equal(parts[PHASE_WEIGHT], 2);
    }
}

// Of the first relay: the own part is multiplied beside the first message, and so on.
static void parts_are_worked_on_one_message_later(void **state)
{
    static const char *const READERS[] = {"q", "k", "v"};
    struct priced of = gpt2(*state, RANKS);
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

// The second relay of forward sums what out makes: the part of the rank behind first, which is what
// the rank in front of it has made last, and its own at the end, in the place of the sum.
static void a_sum_comes_round_to_its_rank_last(void **state)
{
    struct priced of = gpt2(*state, RANKS);
    const struct block_program *block = layer(&of);
    int at = 0, made = -1, came = -1;
    while (block->instrs[at].relay != 2)
        at++;
    for (int step = 1; step <= RANKS; step++) {
        const struct instr *instr = &block->instrs[at++];
        int previous = made;
        assert_string_equal(block->block->ops[instr->op].name, "attention.out");
        assert_int_equal(instr->rows, 3);
        assert_int_equal(instr->gemm.m, SEQ / RANKS);
        assert_int_equal(instr->gemm.n, HIDDEN);
        assert_int_equal(instr->gemm.k, HIDDEN / RANKS);
        made = instr->outputs[0];
        assert_int_equal(block->buffers[made].behind, step % RANKS);
        if (step == 1) continue;
        instr = &block->instrs[at++];
        assert_int_equal(instr->collective, COLLECTIVE_SEND_RECV);
        assert_int_equal(instr->inputs[0], previous);
        came = instr->outputs[0];
        assert_int_equal(block->buffers[came].behind, step % RANKS);
        instr = &block->instrs[at++];
        assert_int_equal(instr->collective, COLLECTIVE_SLICE);
        assert_int_equal(instr->inputs[0], came);
        assert_int_equal(instr->inputs[1], made);
        assert_int_equal(instr->outputs[0], made);
    }
    assert_int_equal(block->instrs[at].relay != 2, 1);
}

// Of a gather the one that is worked on and the one that comes; of a sum the one that is made, the
// one that is sent and the one that comes, one of which may be the rank's own.
static void two_or_three_parts_are_in_memory_at_a_time(void **state)
{
    static const int MOST[] = {2, 3, 2, 3};
    struct priced of = gpt2(*state, RANKS);
    const struct block_program *block = layer(&of);
    int most[5] = {0};
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        int alive = 0;
        for (int b = 0; b < block->buffer_count; b++) {
            const struct buffer *buffer = &block->buffers[b];
            if (!buffer->behind) continue;
            assert_int_equal(buffer->bytes, PART_BYTES);
            alive += buffer->birth <= i && i < buffer->death;
        }
        int relay = block->instrs[i].relay;
        assert_true(relay <= 4);
        if (relay && alive > most[relay]) most[relay] = alive;
    }
    for (int r = 0; r < 4; r++)
        assert_int_equal(most[1 + r], MOST[r]);
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
    struct priced of = gpt2(*state, RANKS);
    const struct block_program *block = layer(&of);
    double hidden_s = 0;
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_SEND_RECV) continue;
        const struct group_shape group = mesh_group(&of.program->mesh, of.cluster, instr->axes);
        double s = collective_price(of.fabrics, &group, COLLECTIVE_SEND_RECV, PART_BYTES, 1).s;
        double beside_s = 0;
        // Forward relays one and three are gathers, two and four sums.
        int step = instr->relay % 2 ? 1 : -1;
        for (int k = i + step; block->instrs[k].rows && block->instrs[k].relay == instr->relay;
             k += step)
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
enum {
    FAULT_ORDER,
    FAULT_AXES,
    FAULT_TWICE,
    FAULT_LEFT_OUT,
    FAULT_NOT_ADDED,
    FAULT_OLD_SUM,
    FAULT_ADDED_TWICE,
    FAULT_PART_TWICE,
    FAULT_COUNT
};

static struct instr *find(struct block_program *block, int relay, enum collective collective,
                          int nth)
{
    for (int i = 0; i < block->instr_count; i++) {
        struct instr *instr = &block->instrs[i];
        if (instr->relay == relay && instr->collective == collective && nth-- == 0) return instr;
    }
    fail();
    return NULL;
}

static void plant(struct block_program *block, int fault)
{
    struct instr *message = find(block, 1, COLLECTIVE_SEND_RECV, 0);
    struct instr *second = find(block, 1, COLLECTIVE_NONE, 3);
    struct instr *sent = find(block, 2, COLLECTIVE_SEND_RECV, 1);
    struct instr *added = find(block, 2, COLLECTIVE_SLICE, 0);
    struct instr *made = find(block, 2, COLLECTIVE_NONE, 1);
    switch (fault) {
    case FAULT_ORDER:
        block->buffers[message->outputs[0]].behind = 2;
        break;
    case FAULT_AXES:
        block->buffers[message->outputs[0]].relay_axes = 0;
        break;
    case FAULT_TWICE:
        second->inputs[0] = message->inputs[0];
        break;
    case FAULT_LEFT_OUT:
        second->rows = 0;
        break;
    case FAULT_NOT_ADDED:
        added->combine = 0;
        break;
    case FAULT_OLD_SUM:
        sent->inputs[0] = added->inputs[0];
        break;
    case FAULT_ADDED_TWICE:
        find(block, 2, COLLECTIVE_SLICE, 1)->inputs[0] = added->inputs[0];
        break;
    case FAULT_PART_TWICE:
        made->outputs[0] = sent->outputs[0];
        break;
    default:
        break;
    }
}

static void wrong_parts_are_found(void **state)
{
    static const char *const SAID[FAULT_COUNT] = {
        "send-recv", "send-recv", "worked on once", "worked on once",
        "slice",     "slice",     "slice",          "worked on once",
    };
    for (int fault = -1; fault < FAULT_COUNT; fault++) {
        struct script_case of = {.arena = *state, .model = -1};
        struct priced priced = gpt2(*state, RANKS);
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
        cmocka_unit_test(a_gather_or_a_sum_is_three_messages_of_four_ranks),
        cmocka_unit_test(two_parts_of_four_ranks_are_of_pairs),
        cmocka_unit_test(parts_that_there_are_not_are_refused),
        cmocka_unit_test(parts_are_worked_on_one_message_later),
        cmocka_unit_test(a_sum_comes_round_to_its_rank_last),
        cmocka_unit_test(two_or_three_parts_are_in_memory_at_a_time),
        cmocka_unit_test(members_stand_in_the_order_of_the_axes),
        cmocka_unit_test(a_message_costs_what_its_work_does_not_cover),
        cmocka_unit_test(of_two_operands_the_larger_is_handed_on),
        cmocka_unit_test(wrong_parts_are_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
