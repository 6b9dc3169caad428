#include "cost_models/memory.h"
#include "tests/support/test.h"

// What a block keeps of a micro-batch, of blocks written by hand.

struct hand {
    struct block block;
    struct tensor tensors[4];
    struct buffer buffers[6];
    struct instr instrs[6];
    struct block_program program;
};

static void start(struct hand *hand, enum block_role role)
{
    *hand = (struct hand){.block = {.role = role}};
    hand->block.tensors = hand->tensors;
    hand->program = (struct block_program){
        .block = &hand->block,
        .buffers = hand->buffers,
        .instrs = hand->instrs,
        .buffer_count = 6,
        .saved_bytes = 1000,
        .weight_read_bytes = 300,
        .shared_read_bytes = 110,
        .gathered_bytes = 70,
    };
}

// Where weight gradients are products in 8 bits a layer keeps their 300 bytes in 150, and the 110
// that others read in 16 bits once more in 55; in 4 bits in 75 and 27.5. What was gathered is kept
// where the stack says so, of layers.
static void low_precision_keeps_less(void **state)
{
    (void)state;
    static const struct {
        enum block_role role;
        enum precision precision;
        unsigned gemms;
        bool keeps_gathers;
        double bytes;
    } CASES[] = {
        {BLOCK_LAYER, PRECISION_BF16, 1u << PHASE_WEIGHT, false, 1000},
        {BLOCK_LAYER, PRECISION_BF16, 0, true, 1070},
        {BLOCK_LAYER, PRECISION_FP8, 1u << PHASE_WEIGHT, false, 1000 - 150 + 55},
        {BLOCK_LAYER, PRECISION_FP8, 1u << PHASE_WEIGHT, true, 1000 - 150 + 55 + 70},
        {BLOCK_LAYER, PRECISION_FP8, 1u << PHASE_FORWARD | 1u << PHASE_BACKWARD, false, 1000},
        {BLOCK_LAYER, PRECISION_FP4, 1u << PHASE_WEIGHT, false, 1000 - 225 + 27.5},
        {BLOCK_HEAD, PRECISION_FP8, 1u << PHASE_WEIGHT, true, 1000},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct hand hand;
        start(&hand, CASES[i].role);
        struct stack stack = {.fp8_gemms = CASES[i].gemms,
                              .fp4_gemms = CASES[i].gemms,
                              .keeps_gathers = CASES[i].keeps_gathers};
        double bytes = memory_kept_bytes(&stack, CASES[i].precision, &hand.program);
        assert_true(bytes == CASES[i].bytes);
        assert_true(memory_least_kept_bytes(&stack, CASES[i].precision, &hand.program) == bytes);
        stack.regathers_between_nodes = true;
        bool has_gathers = CASES[i].keeps_gathers && CASES[i].role == BLOCK_LAYER;
        assert_true(memory_least_kept_bytes(&stack, CASES[i].precision, &hand.program) ==
                    bytes - (has_gathers ? 70 : 0));
    }
}

// In a pipeline whose tensor groups are larger than a node of eight.
static void gathers_are_held_within_a_node(void **state)
{
    (void)state;
    static const struct {
        int stages, tp;
        bool regathers;
        double bytes;
    } CASES[] = {{2, 16, true, 1000}, {2, 9, true, 1000},   {2, 8, true, 1070},
                 {1, 16, true, 1070}, {2, 16, false, 1070}, {3, 16, true, 1000}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct hand hand;
        start(&hand, BLOCK_LAYER);
        struct node_group nodes = {.gpus = 8};
        struct cluster cluster = {.nodes = &nodes, .node_group_count = 1};
        struct program program = {.cluster = &cluster, .workload.precision = PRECISION_BF16};
        program.shape.stage_count = CASES[i].stages;
        program.mesh.axis_count = 1;
        program.mesh.axes[0] = (struct mesh_axis){.parent = AXIS_TP, .size = CASES[i].tp};
        const struct stack stack = {.keeps_gathers = true,
                                    .regathers_between_nodes = CASES[i].regathers};
        assert_true(memory_held_bytes(&program, &stack, &hand.program) == CASES[i].bytes);
    }
}

// Of classes, in proportion to what a layer keeps in all.
static void classes_have_their_share(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, BLOCK_LAYER);
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        hand.program.class_saved_bytes[class] = 10 << class;
    const struct stack stack = {.fp8_gemms = 1u << PHASE_WEIGHT};
    const unsigned all = (1u << OP_CLASS_COUNT) - 1;
    assert_true(memory_class_bytes(&stack, PRECISION_BF16, &hand.program, 0) == 0);
    assert_true(memory_class_bytes(&stack, PRECISION_BF16, &hand.program, 1) == 10);
    assert_true(memory_class_bytes(&stack, PRECISION_BF16, &hand.program, 4 | 8) == 120);
    assert_true(memory_class_bytes(&stack, PRECISION_BF16, &hand.program, all) == 1270);
    assert_true(memory_class_bytes(&stack, PRECISION_BF16, &hand.program, 2 * all + 1) == 1270);
    assert_true(memory_class_bytes(&stack, PRECISION_FP8, &hand.program, 2) == 905 * 20.0 / 1000);
}

// Two losses of a head: their scores, of which one is kept as the product made it, in another
// layout; what is only copied, recomputed or another tensor's does not count. The gradients come
// one after the other.
static void logits_are_what_losses_read(void **state)
{
    (void)state;
    static const int TENSORS[] = {1, 2, 1, 2, 1, 3};
    static const int64_t BYTES[] = {1009, 2003, 4001, 8009, 16007, 32003};
    struct hand hand;
    start(&hand, BLOCK_HEAD);
    for (int b = 0; b < 6; b++)
        hand.buffers[b] = (struct buffer){.tensor = TENSORS[b], .bytes = BYTES[b]};
    hand.buffers[2].saved = hand.buffers[5].saved = true;
    struct instr *instrs = hand.instrs;
    instrs[0] = (struct instr){.kind = OP_LOSS, .inputs = {0}};
    instrs[1] = (struct instr){.kind = OP_LOSS, .inputs = {1}};
    instrs[2] = (struct instr){.kind = OP_LOSS, .inputs = {4}, .recompute = true};
    instrs[3] = (struct instr){.kind = OP_LOSS_BACKWARD, .outputs = {4}};
    instrs[4] = (struct instr){.kind = OP_LOSS_BACKWARD, .outputs = {3}};
    instrs[5] = (struct instr){
        .kind = OP_LOSS_BACKWARD, .outputs = {5}, .collective = COLLECTIVE_ALL_REDUCE};
    hand.program.instr_count = 6;
    struct memory_logits logits = memory_logits_of(&hand.program);
    assert_true(logits.bytes == 1009 + 2003 && logits.gradient_bytes == 16007);
    assert_true(logits.made_bytes == 4001 && !logits.saved);
    // What the loss reads is kept: that itself is not made beside it.
    hand.buffers[0].saved = true;
    hand.program.instr_count = 1;
    logits = memory_logits_of(&hand.program);
    assert_true(logits.bytes == 1009 && logits.saved && logits.made_bytes == 4001);
    assert_true(logits.gradient_bytes == 0);
}

static void what_is_noted_of_kernels_is_not_asked_again(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, BLOCK_LAYER);
    const struct stack stack = {.score_buffer = true};
    hand.program.score_bytes = 77;
    assert_true(memory_kernel_bytes(&stack, PRECISION_BF16, &hand.program) == 77);
    memory_note_kernels(&stack, PRECISION_BF16, &hand.program);
    hand.program.score_bytes = 99;
    assert_true(memory_kernel_bytes(&stack, PRECISION_BF16, &hand.program) == 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_precision_keeps_less),
        cmocka_unit_test(gathers_are_held_within_a_node),
        cmocka_unit_test(classes_have_their_share),
        cmocka_unit_test(logits_are_what_losses_read),
        cmocka_unit_test(what_is_noted_of_kernels_is_not_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
