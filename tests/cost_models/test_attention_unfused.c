#include "cost_models/attention_unfused.h"
#include "tests/support/priced_attention.h"

// Attention of our engine and of stacks without a fused kernel, priced by hand.

static double product_s(const struct priced_attention *bench, int64_t m, int64_t n, int64_t k)
{
    enum bound bound;
    const struct gemm gemm = {8, m, n, k};
    return gemm_s(&bench->context, &gemm, 0, &bound) - 1e-6;
}

static void what_has_no_fused_kernel_is_products_with_scores_in_memory(void **state)
{
    struct priced_attention *bench = priced_attention_own(*state, OP_ATTENTION);
    bench->attention->head_dim = 512;
    bench->attention->value_dim = 32;
    // Forward has one, whatever the width.
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 20e-15 * 1.3);
    bench->program.block->ops->prefix = 7;
    double forward_s = product_s(bench, 1000, 1000, 512) + product_s(bench, 1000, 32, 1000);
    check_price(bench, BOUND_MEMORY, 12, forward_s + 8e6 * 8 / 0.5e12);
    bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 40e-15 * 1.3);
    bench->attention->head_dim = 512;
    double backward_s = product_s(bench, 1000, 1000, 512) + product_s(bench, 1000, 1000, 32) +
                        2 * product_s(bench, 1000, 512, 1000) + product_s(bench, 1000, 32, 1000);
    check_price(bench, BOUND_MEMORY, 4 * 4 + 2 * 8 + 2, backward_s + 8e6 * 16 / 0.5e12);
    // A quarter of the queries.
    bench->attention->seq = 250;
    double quarter_s = product_s(bench, 250, 1000, 512) + product_s(bench, 250, 1000, 32) +
                       product_s(bench, 250, 512, 1000) + product_s(bench, 1000, 512, 250) +
                       product_s(bench, 1000, 32, 250);
    check_price(bench, BOUND_MEMORY, 4 * 4 + 2 * 8 + 2, quarter_s + 2e6 * 16 / 0.5e12);
    bench->attention->seq = 1000;
    // Each with keys of its own all heads are one call.
    bench->attention->kv_heads = 4;
    check_price(bench, BOUND_MEMORY, 4 * 2 + 2 * 2 + 2, backward_s + 8e6 * 16 / 0.5e12);
    bench->stack.unfused_attention = 0;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 50e-15 * 1.3);
}

static void check_rule(const struct priced_attention *bench, enum unfused wanted)
{
    enum unfused found = attention_unfused(&bench->stack, bench->context.precision, &bench->program,
                                           bench->attention);
    assert_int_equal(found, wanted);
}

static void rules_say_what_has_no_fused_kernel(void **state)
{
    struct priced_attention *bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    struct instr *attention = bench->attention, before = *attention;
    check_rule(bench, UNFUSED_COUNT);
    bench->context.precision = PRECISION_FP32;
    check_rule(bench, UNFUSED_FP32);
    bench->stack.unfused_attention ^= 1u << UNFUSED_FP32;
    check_rule(bench, UNFUSED_COUNT);
    struct op *op = bench->program.block->ops;
    op->prefix = 1;
    check_rule(bench, UNFUSED_PREFIX);
    op->dropout_ratio = 0.01;
    check_rule(bench, UNFUSED_DROPOUT);
    *op = (struct op){0};
    attention->value_dim = 257;
    check_rule(bench, UNFUSED_WIDE_BACKWARD);
    attention->value_dim = 12;
    check_rule(bench, UNFUSED_WIDTH);
    *attention = before;
    attention->kv_heads = 3;
    check_rule(bench, UNFUSED_UNEVEN_HEADS);
    *attention = before;
    attention->window = 300;
    check_rule(bench, UNFUSED_COUNT);
    attention->chunked = true;
    check_rule(bench, UNFUSED_CUT_CHUNK);
    attention->window = 500;
    check_rule(bench, UNFUSED_COUNT);
    attention->seq = 250;
    check_rule(bench, UNFUSED_CUT_CHUNK);
    attention->window = 1000;
    check_rule(bench, UNFUSED_COUNT);
    attention->chunked = false;
    bench->instrs[0] = (struct instr){.streamed = true, .stream_steps = 3};
    bench->instrs[0].outputs[0] = attention->inputs[0] = 1;
    attention->input_count = 1;
    // Of keys that are chosen a query has one in some block, and it is not the worse for others.
    check_rule(bench, UNFUSED_COUNT);
    bench->program.block->ops->top_k = 7;
    check_rule(bench, UNFUSED_COUNT);
    attention->seq = 249;
    check_rule(bench, UNFUSED_COUNT);  // of 4 heads
    attention->heads = attention->kv_heads = 3;
    check_rule(bench, UNFUSED_ODD_CHOICE);
    bench->program.block->ops->top_k = 0;
    check_rule(bench, UNFUSED_COUNT);
    bench->program.block->ops->window = 1000;
    check_rule(bench, UNFUSED_RING_WINDOW);
}

// Scores of two heads in fp32 and their weights in 16 bits, twice in backward, and the gradients of
// 2000 rows of keys and values of 2 heads in fp32.
static void scores_of_some_heads_are_kept(void **state)
{
    struct priced_attention *bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    const struct stack *stack = &bench->stack;
    assert_true(score_bytes(stack, PRECISION_BF16, &bench->program) == 0);
    bench->attention->head_dim = 512;
    assert_true(score_bytes(stack, PRECISION_BF16, &bench->program) ==
                2 * 2e6 * 6 + 2 * 2000.0 * 544 * 4);
    bench->attention->seq = bench->attention->kv_seq = 16384;  // of which two heads are too many
    assert_true(score_bytes(stack, PRECISION_BF16, &bench->program) ==
                2 * 268435456.0 * 6 + 2 * 32768.0 * 544 * 4);
}

// Of 8192 x 4096 scores two heads have room, each with keys of its own: four calls in backward. Of
// a ring's 4 blocks of 250 keys both that share them have, in 16 calls, and 8 heads have a product
// of their own for each block.
static void heads_are_worked_on_while_scores_have_room(void **state)
{
    struct priced_attention *bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    struct instr *attention = bench->attention;
    attention->kv_heads = 4;
    attention->head_dim = 512;
    attention->seq = 8192;
    attention->kv_seq = 4096;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) ==
                2 * 2 * 33554432.0 * 6 + 2 * 4 * 544 * 4096.0 * 4);
    struct compute_cost cost = unfused_price(&bench->context, &bench->program, attention);
    assert_true(cost.kernel_count == 4 * 4 + 2 * 4 + 2);
    attention->collective = COLLECTIVE_ALL_REDUCE;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 0);
    bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    attention = bench->attention;
    bench->instrs[0] = (struct instr){.streamed = true, .stream_steps = 3};
    bench->instrs[0].outputs[0] = attention->inputs[0] = 1;
    attention->input_count = 1;
    attention->seq = 250;
    attention->window = bench->program.block->ops->window = 300;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) ==
                2 * 2 * 62500.0 * 6 + 2 * 2 * 96 * 250.0 * 4);
    cost = unfused_price(&bench->context, &bench->program, attention);
    assert_true(cost.kernel_count == 4 * 16 + 2 * 32 + 2);
    // Software that keeps the scores of a layer has these at least.
    bench->stack.score_buffer = true;
    bench->program.score_bytes = 1884001;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 1884001);
    bench->program.score_bytes = 1883999;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 1884000);
    bench->stack.unfused_attention = 0;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 1883999);
}

// Of our engine: slopes by head are another kernel, sinks one more, backward two that read and
// write 8000 rows of 32 gradients. Around a ring of 4 blocks backward adds up gradients of 4000
// rows of keys and values, 96 wide, in three kernels a block but for the first's one.
static void our_engine_adds_its_own_kernels(void **state)
{
    struct priced_attention *bench = priced_attention_own(*state, OP_ATTENTION);
    struct op *op = bench->program.block->ops;
    double forward_s = 1.8e12 * 20e-15 * 1.3, backward_s = 1.8e12 * 40e-15 * 1.3;
    op->input_count = 3;
    op->alibi = 8;
    check_price(bench, BOUND_COMPUTE, 2, forward_s);
    op->input_count = 4;
    check_price(bench, BOUND_COMPUTE, 3, forward_s);
    op->alibi = 0;
    check_price(bench, BOUND_COMPUTE, 2, forward_s);
    struct compute_cost cost = attention_price(&bench->context, &bench->program, bench->attention);
    assert_true(cost.kernel_count == 2);
    bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    bench->program.block->ops->output_count = 4;
    check_price(bench, BOUND_COMPUTE, 3, backward_s + 2 * 8000.0 * 32 * 2 / 0.5e12);
    bench = priced_attention_own(*state, OP_ATTENTION_BACKWARD);
    bench->instrs[0] = (struct instr){.streamed = true, .stream_steps = 3};
    bench->instrs[0].outputs[0] = bench->attention->inputs[0] = 1;
    bench->attention->input_count = 1;
    bench->attention->outputs[0] = 2;
    bench->attention->seq = 250;
    bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 4 + 11,
                2.6e12 * 40e-15 * 350 / 250 + 9e9 / 0.5e12 + 3 * 4000.0 * 96 * 2 / 0.5e12);
}

static void products_take_the_longer_of_flops_and_bytes(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    struct op op = {.phase = PHASE_FORWARD, .work = {.multiplies = true}};
    struct compute_cost stream = {.s = 0.001, .bound = BOUND_MEMORY, .kernel_count = 3};
    static const struct {
        double scale, stream_s, s;
    } BACKWARD[] = {{1, 0.001, 0.04 + 3e-6}, {8, 0.001, 0.01 + 3e-6}, {8, 0.02, 0.02}};
    struct compute_cost cost = products_price(&bench->context, &op, bench->attention, stream);
    check_near(cost.s, 0.02 + 3e-6);
    assert_true(cost.bound == BOUND_COMPUTE && cost.kernel_count == 3);
    op.phase = PHASE_BACKWARD;
    for (int i = 0; i < 4; i++) {
        op.work.multiplies = i < 3;
        bench->stack.attention_backward_scale = BACKWARD[i % 3].scale;
        stream.s = BACKWARD[i % 3].stream_s;
        cost = products_price(&bench->context, &op, bench->attention, stream);
        check_near(cost.s, i < 3 ? BACKWARD[i].s : stream.s);
        assert_int_equal(cost.bound, i < 2 ? BOUND_COMPUTE : BOUND_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_fused_kernel_is_products_with_scores_in_memory),
        cmocka_unit_test(rules_say_what_has_no_fused_kernel),
        cmocka_unit_test(scores_of_some_heads_are_kept),
        cmocka_unit_test(heads_are_worked_on_while_scores_have_room),
        cmocka_unit_test(our_engine_adds_its_own_kernels),
        cmocka_unit_test(products_take_the_longer_of_flops_and_bytes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
