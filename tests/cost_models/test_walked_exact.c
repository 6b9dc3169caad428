#include "cost_models/own_kernels.h"
#include "cost_models/scan.h"
#include "cost_models/strided.h"
#include "cost_models/walked.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Kernels of our CUDA back end that walk tokens, and those that go with loops over numbers: prices
// by hand, of a device with five multiprocessors.

static const double LAUNCH_S = 7e-6;

struct hand {
    struct stack stack, other;
    struct device device;
    struct compute_context context;
    struct tensor tensors[5];
    struct buffer buffers[4];
    struct op op;
    struct block block;
    struct block_program program;
    struct instr instr;
};

static void start(struct arena *arena, struct hand *hand)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    *hand = (struct hand){.stack = *stack_load(arena, "meshwright", &err),
                          .other = *stack_load(arena, "megatron-core", &err),
                          .device = *cluster->nodes[0].device};
    assert_string_equal(err.text, "");
    hand->device.multiprocessor_count = 5;
    hand->device.exponential_per_s = 8e9;  // a turn: 500 * 16 * 5 / 8e9 = 5 us
    hand->device.launch_latency_s = LAUNCH_S;
    hand->context = (struct compute_context){
        .device = &hand->device, .stack = &hand->stack, .precision = PRECISION_BF16};
    hand->block = (struct block){.tensors = hand->tensors, .tensor_count = 5, .ops = &hand->op};
    hand->program = (struct block_program){
        .block = &hand->block, .buffers = hand->buffers, .instrs = &hand->instr, .instr_count = 1};
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-12 * fabs(wanted)) return;
    print_error("found %.15g, wanted %.15g\n", found, wanted);
    fail();
}

// Only the operand of this place has the state; others have another size.
static void start_delta(struct arena *arena, struct hand *hand, bool is_forward)
{
    start(arena, hand);
    for (int i = 0; i < 5; i++) {
        hand->op.inputs[i] = i;
        hand->tensors[i].rank = 2;
        hand->tensors[i].extents[0] = (struct extent){.dim = DIM_SEQ};
        hand->tensors[i].extents[1] = (struct extent){.dim = DIM_STATE, .size = 1000};
    }
    hand->tensors[is_forward ? 2 : 3].extents[1].size = 128;
    hand->instr = (struct instr){.kind = is_forward ? OP_DELTA : OP_DELTA_BACKWARD,
                                 .batch = 3,
                                 .seq = 11,
                                 .heads = 7,
                                 .kv_heads = 2,
                                 .head_dim = 13,
                                 .read_bytes = 3000,
                                 .write_bytes = 1000};
}

// 3 x 7 pairs of 13 channels are 35 blocks of 8, which 15 at a time run in three rounds of 11
// tokens, two turns each. Where more is moved than walked memory is what takes long.
static void forward_walks_twice_a_token(void **state)
{
    struct hand hand;
    start_delta(*state, &hand, true);
    assert_true(delta_walks(&hand.stack, &hand.instr));
    assert_false(delta_walks(&hand.other, &hand.instr));
    struct compute_cost cost = walked_price(&hand.context, &hand.program, &hand.instr);
    is_near(cost.s, 3 * 11 * 2 * 5e-6 + LAUNCH_S);
    assert_int_equal(cost.bound, BOUND_COMPUTE);
    assert_true(cost.kernel_count == 1);
    hand.instr.read_bytes = 3000000000;
    hand.instr.write_bytes = 2000000000;
    cost = walked_price(&hand.context, &hand.program, &hand.instr);
    is_near(cost.s, stream_s(&hand.context, 5e9) + LAUNCH_S);
    assert_int_equal(cost.bound, BOUND_MEMORY);
    // Without a width it is one: 21 channels are 3 blocks. A device that does not say how many
    // exponentials it makes takes a 15th of a launch for a turn.
    hand.instr.read_bytes = hand.instr.write_bytes = 0;
    hand.instr.head_dim = 0;
    hand.device.exponential_per_s = 0;
    cost = walked_price(&hand.context, &hand.program, &hand.instr);
    is_near(cost.s, 11 * 2 * LAUNCH_S / 15 + LAUNCH_S);
    assert_true(walked_bytes(&hand.stack, &hand.program) == 0);
    hand.instr.collective = COLLECTIVE_ALL_GATHER;
    assert_false(delta_walks(&hand.stack, &hand.instr));
}

// 4,096 tokens keep 64 states and have 64 between two of them: with two more and gradients a pair
// has 2,122,240 numbers, of which 512 MiB hold 63 pairs. 30 x 7 are four launches of 63 blocks,
// five rounds each; a turn of 64 x 128: 8 x (5 x 4 + 1) of channels and 64 of columns.
static void backward_walks_by_pairs_that_have_room(void **state)
{
    struct hand hand;
    start_delta(*state, &hand, false);
    hand.instr.batch = 30;
    hand.instr.seq = 4096;
    hand.instr.head_dim = 64;
    struct compute_cost cost = walked_price(&hand.context, &hand.program, &hand.instr);
    is_near(cost.s, 4.0 * 5 * 4096 * (8 * 21 + 64) * 5e-6 + 9 * LAUNCH_S);
    assert_true(cost.kernel_count == 9);
    // In fp32, with two sums of the groups' states for each token and one number for each pair.
    double wanted = 4 * (63 * 2122240.0 + 2.0 * 30 * 4096 * 2 * 128 + 210);
    assert_true(walked_bytes(&hand.stack, &hand.program) == wanted);
    assert_true(walked_bytes(&hand.other, &hand.program) == 0);
    // A state of 300 has 10 lanes, and 2 columns of 256; 13 channels are 2 times 8. All 21 pairs
    // run at once, in two rounds.
    start_delta(*state, &hand, false);
    hand.tensors[3].extents[1].size = 300;
    cost = walked_price(&hand.context, &hand.program, &hand.instr);
    is_near(cost.s, 2 * 11 * (2 * 51 + 13 * 2) * 5e-6 + 3 * LAUNCH_S);
    // Of two instructions the larger counts, of others none.
    struct instr both[] = {hand.instr, hand.instr, hand.instr};
    both[1].batch = 5;
    both[2].kind = OP_DELTA;
    both[2].batch = 1000;
    hand.program.instrs = both;
    hand.program.instr_count = 3;
    assert_true(walked_bytes(&hand.stack, &hand.program) ==
                4 * (35 * 42648.0 + 2 * 5 * 11 * 2 * 300 + 35));
}

static const struct compute_cost STREAM = {.s = 1e-3, .kernel_count = 3, .bound = BOUND_MEMORY};

static void is_priced(struct hand *hand, double launches, double bytes)
{
    struct compute_cost cost = strided_price(&hand->context, &hand->program, &hand->instr, STREAM);
    is_near(cost.s, 1e-3 + stream_s(&hand->context, bytes) + (launches - 3) * LAUNCH_S);
    assert_true(cost.kernel_count == launches);
    assert_int_equal(cost.bound, BOUND_MEMORY);
}

static void start_strided(struct arena *arena, struct hand *hand, const struct strided *loops,
                          enum imported_kind type, enum phase phase)
{
    start(arena, hand);
    hand->op.work.strided = loops;
    hand->op.work.type = type;
    hand->op.phase = phase;
    hand->op.input_count = 2;
    hand->op.output_count = 5;
    hand->instr = (struct instr){.batch = 2, .inputs = {1}, .outputs = {2}};
    hand->buffers[1].bytes = 1009000;
    hand->buffers[2].bytes = 2003000;
    // A result of 6 x 35 in every sample.
    hand->tensors[3].rank = 3;
    hand->tensors[3].extents[0] = (struct extent){.dim = DIM_BATCH};
    hand->tensors[3].extents[1] = (struct extent){.dim = DIM_SEQ, .size = 6};
    hand->tensors[3].extents[2] = (struct extent){.dim = DIM_STATE, .size = 35};
    hand->op.outputs[0] = 3;
}

// What is cut is a launch for each piece; what is put together again one for each of these.
static void pieces_are_launches(void **state)
{
    static const struct strided LOOPS = {.count = 1, .sizes = {210}, .steps = {{1}, {1}}};
    struct hand hand;
    start_strided(*state, &hand, &LOOPS, IMPORTED_SPLIT, PHASE_FORWARD);
    is_priced(&hand, 5, 0);
    start_strided(*state, &hand, &LOOPS, IMPORTED_SPLIT, PHASE_BACKWARD);
    is_priced(&hand, 2, 0);
    start_strided(*state, &hand, &LOOPS, IMPORTED_MOVE, PHASE_FORWARD);
    is_priced(&hand, 1, 0);
    start_strided(*state, &hand, &LOOPS, IMPORTED_MATRIX, PHASE_FORWARD);
    is_priced(&hand, 1, 0);
    struct compute_cost nothing = {0};
    assert_true(own_kernels_price(&hand.context, &hand.program, &hand.instr, nothing).s == 0);
    hand.context.stack = &hand.other;
    assert_true(own_kernels_price(&hand.context, &hand.program, &hand.instr, STREAM).kernel_count ==
                3);
    start_strided(*state, &hand, NULL, IMPORTED_MOVE, PHASE_BACKWARD);
    assert_true(own_kernels_price(&hand.context, &hand.program, &hand.instr, STREAM).kernel_count ==
                3);
}

// A gradient that is moved to all of 210 numbers is written as it comes; to 30 of them zeros are
// written first, and what is moved is read and added, no more of it than there is.
static void a_move_that_leaves_numbers_out_fills_them(void **state)
{
    static const struct strided ALL = {.count = 2, .sizes = {6, 35}, .steps = {{35, 1}}};
    static const struct strided SOME = {.count = 2, .sizes = {6, 5}, .steps = {{35, 7}}};
    struct hand hand;
    start_strided(*state, &hand, &ALL, IMPORTED_MOVE, PHASE_BACKWARD);
    is_priced(&hand, 1, 0);
    start_strided(*state, &hand, &SOME, IMPORTED_MOVE, PHASE_BACKWARD);
    is_priced(&hand, 2, 2 * 1009000);
    hand.buffers[2].bytes = 503000;
    is_priced(&hand, 2, 1009000 + 503000);
}

// Gradients of both operands: 6 x 35 numbers a sample, each read 640 times, are 10 pieces a number
// of both samples, and 5 of a weight, 3 x 640 times of each sample, 60 pieces. Pieces are written
// and read in fp32, by two launches. What is made is read once more for the second gradient.
static void repeated_operands_add_up_pieces(void **state)
{
    static const struct strided LOOPS = {
        .count = 2, .sizes = {3, 640}, .steps = {{640, 0}, {0, 0}}};
    static const struct strided ONCE = {
        .count = 2, .sizes = {3, 640}, .steps = {{640, 1}, {640, 1}}};
    struct hand hand;
    for (int once = 0; once < 2; once++) {
        start_strided(*state, &hand, once ? &ONCE : &LOOPS, IMPORTED_MULTIPLY, PHASE_BACKWARD);
        hand.op.output_count = 2;
        hand.op.outputs[1] = 4;
        hand.tensors[4].rank = 1;
        hand.tensors[4].extents[0] = (struct extent){.dim = DIM_STATE, .size = 5};
        double pieces = once ? 0 : 2 * 4 * (10 * 2 * 210.0 + 60 * 5);
        is_priced(&hand, once ? 2 : 4, 1009000 + pieces);
    }
    hand.op.output_count = 1;
    is_priced(&hand, 1, 0);
}

// 231 pairs of a token and a head have 13 rows of 128 numbers, each as long as 79 flop, backward
// 175; or what is moved, if that takes longer. Chunks know nothing of it.
static void processors_walk_at_the_pace_of_their_products(void **state)
{
    struct hand hand;
    for (int is_forward = 0; is_forward < 2; is_forward++) {
        start_delta(*state, &hand, is_forward);
        hand.op.kind = hand.instr.kind;
        hand.stack.walks_scans = true;
        hand.device.peak_flop_per_s[PRECISION_FP32] = 1e9;
        double numbers = 231 * 13 * 128, flop = is_forward ? 79 : 175;
        struct compute_cost cost = scan_price(&hand.context, &hand.program, &hand.instr);
        is_near(cost.s, numbers * flop / 1e9 + LAUNCH_S);
        assert_true(cost.bound == BOUND_COMPUTE && cost.kernel_count == 1);
        hand.instr.read_bytes = (int64_t)5e13;
        cost = scan_price(&hand.context, &hand.program, &hand.instr);
        is_near(cost.s, stream_s(&hand.context, 5e13 + 1000) + LAUNCH_S);
        assert_true(cost.bound == BOUND_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_walk_at_the_pace_of_their_products),
        cmocka_unit_test(forward_walks_twice_a_token),
        cmocka_unit_test(backward_walks_by_pairs_that_have_room),
        cmocka_unit_test(pieces_are_launches),
        cmocka_unit_test(a_move_that_leaves_numbers_out_fills_them),
        cmocka_unit_test(repeated_operands_add_up_pieces),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
