#include "tests/support/priced_attention.h"

#include <math.h>

// Causal: the longest block is twice the mean one, 0.25 * 2 * 128 * 100 / 8000 = 0.8 more, at 1000
// of 1300 keys. Else 0.4, at 1000 of 1100.
static void attention_is_flops_at_its_rate_and_a_tail(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 20e-15 * 1.3);
    bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 1, 1.4e12 * 20e-15 * 1.1);
    bench = priced_attention_new(*state, OP_ATTENTION_BACKWARD);
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 40e-15 * 1.3);
    bench->attention->head_dim = 128;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 40e-15 * 1.3);
    bench->attention->head_dim = 192;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 50e-15 * 1.3);
    bench->attention->read_bytes = 100000000000;
    bench->attention->write_bytes = 50000000000;
    check_price(bench, BOUND_MEMORY, 1, 0.3);
}

// 200 keys behind a query, and where nothing is masked as many in front.
static void a_window_leaves_fewer_keys(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->attention->window = 200;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 20e-15 * 500 / 200);
    bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 1, 1.4e12 * 20e-15 * 500 / 400);
    bench->attention->chunked = true;
    check_price(bench, BOUND_COMPUTE, 1, 1.4e12 * 20e-15 * 300 / 200);
}

// An exponential has 2 (64 + 32) flops in forward, 2 (3 * 64 + 2 * 32) in backward: 80 and 30 fs a
// flop beside 20 and 40.
static void exponentials_are_waited_for(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->device.exponential_per_s = 1 / (192 * 80e-15);
    check_price(bench, BOUND_COMPUTE, 1,
                1.8e12 * 1.3 * 1e-15 * pow(pow(20, 1.5) + pow(80, 1.5), 2 / 3.0));
    bench = priced_attention_new(*state, OP_ATTENTION_BACKWARD);
    bench->device.exponential_per_s = 1 / (192 * 80e-15);
    check_price(bench, BOUND_COMPUTE, 1,
                1.8e12 * 1.3 * 1e-15 * pow(pow(40, 1.5) + pow(30, 1.5), 2 / 3.0));
}

// A device that takes block scales: fp8 at 200 TFLOP/s, 10 and 20 fs a flop, and 1e13 instructions
// a second: 1.3 and 21 of them a query and key of 192 and 512 flops. Of 8000 rows, 8000 of keys as
// well, 64 wide ones and 32 wide values are quantised in forward, 32 wide gradients in backward, at
// 5 bytes. The layer has experts.
static struct priced_attention *narrow_bench(struct arena *arena, enum op_kind kind)
{
    struct priced_attention *bench = priced_attention_new(arena, kind);
    struct block *block = ARENA_NEW(arena, struct block, 1);
    *block = (struct block){.ops = ARENA_NEW(arena, struct op, 1), .op_count = 1};
    block->ops->kind = OP_ROUTE;
    bench->program.block = block;
    double *peak = bench->device.peak_flop_per_s;
    peak[PRECISION_FP32] = 20e12;
    peak[PRECISION_FP8] = 200e12;
    peak[PRECISION_FP4] = 400e12;
    bench->stack.expert_attention = true;
    bench->stack.cast_bytes = 5;
    bench->stack.cast_kernels = 1;
    bench->attention->kv_heads = 4;
    bench->context.precision = PRECISION_FP8;
    return bench;
}

static void narrow_attention_pays_for_what_it_quantises(void **state)
{
    struct priced_attention *bench = narrow_bench(*state, OP_ATTENTION);
    double cast_s = 5 * 8000.0 * (64 + 64 + 32) / 0.5e12;
    check_price(bench, BOUND_COMPUTE, 4, 1.8e12 * 1.3 * (10e-15 + 1.3 / 192e13) + cast_s);
    bench->attention->kv_heads = 1;
    cast_s = 5 * 8000.0 * (64 + 96 / 4.0) / 0.5e12;
    check_price(bench, BOUND_COMPUTE, 4, 1.8e12 * 1.3 * (10e-15 + 1.3 / 192e13) + cast_s);
    bench = narrow_bench(*state, OP_ATTENTION_BACKWARD);
    cast_s = 5 * 8000.0 * 32 / 0.5e12;
    check_price(bench, BOUND_COMPUTE, 2, 1.8e12 * 1.3 * (20e-15 + 21 / 512e13) + cast_s);
    // Wide heads lose nothing: 2 (3 * 192 + 2 * 32) flops a pair.
    bench->attention->head_dim = 192;
    check_price(bench, BOUND_COMPUTE, 2, 1.8e12 * 1.3 * (20e-15 + 21 / 1280e13) + cast_s);
}

// In 16 bits on such a device they run at 0.9 of the rate. There is no narrow attention without
// block scales, without experts, in fp4, or where the stack has none.
static void only_mixtures_in_fp8_on_block_scales_narrow_attention(void **state)
{
    for (int i = 0; i < 5; i++) {
        struct priced_attention *bench = narrow_bench(*state, OP_ATTENTION_BACKWARD);
        bench->attention->head_dim = 192;
        if (i == 0) bench->context.precision = PRECISION_BF16;
        if (i == 1) bench->context.precision = PRECISION_FP4;
        if (i == 2) bench->stack.expert_attention = false;
        if (i == 3) bench->program.block->ops->kind = OP_NORM;
        if (i == 4) bench->device.peak_flop_per_s[PRECISION_FP4] = 0;
        check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 1.3 * 40e-15 / (i == 4 ? 0.8 : 0.9));
    }
}

// A stack's kernels may be faster than the device's, but not than its peak, and have a limit: of 20
// TFLOP/s backward reaches 0.863.
static void a_stack_s_kernels_have_their_own_rate(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->stack.attention_forward_scale = 1.25;
    bench->stack.attention_backward_scale = 2.5;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 16e-15 * 1.3);
    bench->attention->kind = OP_ATTENTION_BACKWARD;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 16e-15 * 1.3);
    bench->stack.attention_backward_scale = 5;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 10e-15 * 1.3);
    bench->stack.attention_flop_per_s_most = 20e12;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 50e-15 / 0.863 * 1.3);
    bench->attention->kind = OP_ATTENTION;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 50e-15 * 1.3);
}

// At 0.8 of the clock 25 fs of a flop for 20, beside an exponential in 100 for 80, and 62.5 for the
// 50 of a kernel with a limit of its own.
static void a_lower_clock_takes_all_rates_of_attention(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->device.efficiency.attention_clock_ratio = 0.8;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 1.3 * 25e-15);
    bench->stack.attention_flop_per_s_most = 20e12;
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 1.3 * 62.5e-15);
    bench->stack.attention_flop_per_s_most = 0;
    bench->device.exponential_per_s = 1 / (192 * 80e-15);
    check_price(bench, BOUND_COMPUTE, 1,
                1.8e12 * 1.3 * 1e-15 * pow(pow(25, 1.5) + pow(100, 1.5), 2 / 3.0));
}

// The last of 4 ranks has 7/4 of the mean pairs of 2000 rows, whose tail is 3.2. Of chunks of 500
// keys the last queries have 3/2. Of a window of 500 keys, 375,000 pairs in all, the last rank has
// 125,000, 4/3 of its share; of 900 keys 213,750 of 495,000.
static void the_last_rank_has_most_keys(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->attention->seq = 250;
    check_price(bench, BOUND_COMPUTE, 1, 1.75 * 4.2e12 * 20e-15 * 1.3);
    bench->attention->window = 500;
    check_price(bench, BOUND_COMPUTE, 1, 4.2e12 * 4 / 3 * 20e-15 * 800 / 500);
    bench->attention->chunked = true;
    check_price(bench, BOUND_COMPUTE, 1, 4.2e12 * 1.5 * 20e-15 * 800 / 500);
    bench->attention->chunked = false;
    bench->attention->window = 900;
    check_price(bench, BOUND_COMPUTE, 1, 4.2e12 * 4 * 213750 / 495000 * 20e-15 * 1200 / 900);
    // Halves from both ends have as much each.
    bench->attention->window = 0;
    bench->stack.cp_zigzag = true;
    check_price(bench, BOUND_COMPUTE, 1, 4.2e12 * 20e-15 * 1.3);
    bench->stack.cp_zigzag = bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 1, 2.6e12 * 20e-15 * 1.1);
}

// 4 blocks of keys, 3 of them received: 4 kernels and 3 that read two results of a GB and write
// one.
static void blocks_come_round_a_ring(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    bench->buffers[1].bytes = 1;
    bench->instrs[0] = (struct instr){.streamed = true, .stream_steps = 3};
    bench->instrs[0].outputs[0] = bench->attention->inputs[0] = 1;
    bench->attention->input_count = 1;
    bench->attention->outputs[0] = 2;
    bench->attention->seq = 250;
    bench->stack.cp_zigzag = true;
    check_price(bench, BOUND_COMPUTE, 7, 4.2e12 * 20e-15 * 425 / 125 + 9e9 / 0.5e12);
    bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 7, 2.6e12 * 20e-15 * 350 / 250 + 9e9 / 0.5e12);
}

// A head's product has 2 * 64 + 3 flops a pair, whose sum over 4 heads is written and read in fp32.
static void the_choice_of_keys_reads_a_sum_over_heads(void **state)
{
    struct priced_attention *bench = priced_attention_new(*state, OP_ATTENTION);
    struct compute_cost stream = {.s = 0.001, .kernel_count = 3};
    const struct op op = {0};
    double scores_s = 2 * 4 * 1e12 / (4 * 131) / 0.5e12;
    struct compute_cost cost = choose_price(&bench->context, &op, bench->attention, stream);
    check_near(cost.s, scores_s + 0.001 - 3e-6 + 2e-6);
    assert_int_equal(cost.bound, BOUND_MEMORY);
    assert_true(cost.kernel_count == 2);
    bench->stack.attention_forward_scale = 0.5;
    cost = choose_price(&bench->context, &op, bench->attention, stream);
    check_near(cost.s, 1e12 * 40e-15 + 2e-6);
    assert_int_equal(cost.bound, BOUND_COMPUTE);
    // No faster than the peak; the last of 4 ranks has 7/4 of the mean.
    bench->stack.attention_forward_scale = 4;
    bench->attention->heads = 400;
    bench->attention->seq = 250;
    cost = choose_price(&bench->context, &op, bench->attention, stream);
    check_near(cost.s, 1.75e12 * 10e-15 + 2e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_flops_at_its_rate_and_a_tail),
        cmocka_unit_test(a_window_leaves_fewer_keys),
        cmocka_unit_test(exponentials_are_waited_for),
        cmocka_unit_test(narrow_attention_pays_for_what_it_quantises),
        cmocka_unit_test(only_mixtures_in_fp8_on_block_scales_narrow_attention),
        cmocka_unit_test(a_stack_s_kernels_have_their_own_rate),
        cmocka_unit_test(a_lower_clock_takes_all_rates_of_attention),
        cmocka_unit_test(the_last_rank_has_most_keys),
        cmocka_unit_test(blocks_come_round_a_ring),
        cmocka_unit_test(the_choice_of_keys_reads_a_sum_over_heads),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
