#include "cost_models/attention.h"
#include "cost_models/attention_unfused.h"
#include "tests/support/test.h"

#include <math.h>

// Attention priced by hand from the formulas of cost_models/compute.h. A device of 100 TFLOP/s,
// half of it in forward and a quarter in backward: 20 and 40 fs a flop. Half the rate at 300 keys,
// a third of these where nothing is masked. 0.5 TB/s reach kernels, and 1 us lies between two. A
// tera flop over 1000 keys, 2 sequences of 4 heads: 8000 rows of queries in blocks of 128 over 100
// multiprocessors, half of half of the longest block is waited for.
struct priced_attention {
    struct device device;
    struct stack stack;
    struct compute_context context;
    struct buffer buffers[3];
    struct instr instrs[2];
    struct block_program program;
    struct instr *attention;
};

static struct priced_attention *bench_new(struct arena *arena, enum op_kind kind)
{
    struct priced_attention *bench = ARENA_NEW(arena, struct priced_attention, 1);
    bench->device.peak_flop_per_s[PRECISION_BF16] = 100e12;
    bench->device.memory_bandwidth_bytes_per_s = 1e12;
    bench->device.multiprocessor_count = 100;
    bench->device.launch_latency_s = 1e-6;
    bench->device.efficiency = (struct device_efficiency){.memory_ratio = 0.5,
                                                          .attention_forward_ratio = 0.5,
                                                          .attention_backward_ratio = 0.25,
                                                          .attention_half_seq = 300,
                                                          .attention_tail_ratio = 0.5};
    bench->stack.attention_forward_scale = bench->stack.attention_backward_scale = 1;
    bench->context = (struct compute_context){
        .device = &bench->device, .stack = &bench->stack, .precision = PRECISION_BF16};
    bench->buffers[2].bytes = 1000000000;
    bench->program.buffers = bench->buffers;
    bench->program.instrs = bench->instrs;
    bench->attention = &bench->instrs[1];
    *bench->attention = (struct instr){.kind = kind,
                                       .causal = true,
                                       .batch = 2,
                                       .heads = 4,
                                       .seq = 1000,
                                       .kv_seq = 1000,
                                       .head_dim = 64,
                                       .value_dim = 32,
                                       .flop = 1e12};
    return bench;
}

static void check_near(double s, double by_hand_s)
{
    if (fabs(s / by_hand_s - 1) > 1e-9) {
        print_error("%.12g s, by hand %.12g s\n", s, by_hand_s);
        fail();
    }
}

static void check_price(const struct priced_attention *bench, enum bound bound, double kernels,
                        double s)
{
    struct compute_cost cost = attention_price(&bench->context, &bench->program, bench->attention);
    check_near(cost.s, s + kernels * 1e-6);
    assert_int_equal(cost.bound, bound);
    assert_true(cost.kernel_count == kernels);
}

// Causal: the longest block is twice the mean one, 0.25 * 2 * 128 * 100 / 8000 = 0.8 more, at 1000
// of 1300 keys. Else 0.4, at 1000 of 1100.
static void attention_is_flops_at_its_rate_and_a_tail(void **state)
{
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 20e-15 * 1.3);
    bench->attention->causal = false;
    check_price(bench, BOUND_COMPUTE, 1, 1.4e12 * 20e-15 * 1.1);
    bench = bench_new(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
    bench->device.exponential_per_s = 1 / (192 * 80e-15);
    check_price(bench, BOUND_COMPUTE, 1,
                1.8e12 * 1.3 * 1e-15 * pow(pow(20, 1.5) + pow(80, 1.5), 2 / 3.0));
    bench = bench_new(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = bench_new(arena, kind);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
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

// Two heads share keys: 4 calls. Of 8e6 pairs a product in 16 bits writes 4 bytes and not 2, of
// which 4 are read and 2 written; backward twice, for gradients as well.
static struct priced_attention *own_bench(struct arena *arena, enum op_kind kind)
{
    struct priced_attention *bench = bench_new(arena, kind);
    struct block *block = ARENA_NEW(arena, struct block, 1);
    *block = (struct block){.ops = ARENA_NEW(arena, struct op, 1), .op_count = 1};
    bench->program.block = block;
    bench->program.instr_count = 2;
    bench->instrs[0].collective = COLLECTIVE_ALL_GATHER;
    bench->device.efficiency.gemm_ratio[PRECISION_BF16] = 0.5;
    bench->device.efficiency.gemm_memory_ratio = 0.5;
    bench->stack.gemm_scale = bench->stack.unaligned_gemm_ratio = 1;
    bench->stack.unfused_attention = (1u << UNFUSED_COUNT) - 1;
    bench->attention->kv_heads = 2;
    return bench;
}

static double product_s(const struct priced_attention *bench, int64_t m, int64_t n, int64_t k)
{
    enum bound bound;
    const struct gemm gemm = {8, m, n, k};
    return gemm_s(&bench->context, &gemm, 0, &bound) - 1e-6;
}

static void what_has_no_fused_kernel_is_products_with_scores_in_memory(void **state)
{
    struct priced_attention *bench = own_bench(*state, OP_ATTENTION);
    bench->attention->head_dim = 512;
    bench->attention->value_dim = 32;
    // Forward has one, whatever the width.
    check_price(bench, BOUND_COMPUTE, 1, 1.8e12 * 20e-15 * 1.3);
    bench->program.block->ops->prefix = 7;
    double forward_s = product_s(bench, 1000, 1000, 512) + product_s(bench, 1000, 32, 1000);
    check_price(bench, BOUND_MEMORY, 12, forward_s + 8e6 * 8 / 0.5e12);
    bench = own_bench(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = own_bench(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = own_bench(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = own_bench(*state, OP_ATTENTION_BACKWARD);
    struct instr *attention = bench->attention;
    attention->kv_heads = 4;
    attention->head_dim = 512;
    attention->seq = 8192;
    attention->kv_seq = 4096;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) ==
                2 * 2 * 33554432.0 * 6 + 2 * 4 * 544 * 4096.0 * 4);
    struct compute_cost cost = unfused_price(&bench->context, &bench->program, attention);
    assert_true(cost.kernel_count == 4 * 4 + 2 * 4 + 2 && cost.beside_count == 25);
    attention->collective = COLLECTIVE_ALL_REDUCE;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 0);
    bench = own_bench(*state, OP_ATTENTION_BACKWARD);
    attention = bench->attention;
    bench->instrs[0] = (struct instr){.streamed = true, .stream_steps = 3};
    bench->instrs[0].outputs[0] = attention->inputs[0] = 1;
    attention->input_count = 1;
    attention->seq = 250;
    attention->window = bench->program.block->ops->window = 300;
    assert_true(score_bytes(&bench->stack, PRECISION_BF16, &bench->program) ==
                2 * 2 * 62500.0 * 6 + 2 * 2 * 96 * 250.0 * 4);
    cost = unfused_price(&bench->context, &bench->program, attention);
    assert_true(cost.kernel_count == 4 * 16 + 2 * 32 + 2 && cost.beside_count == 129);
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
    struct priced_attention *bench = own_bench(*state, OP_ATTENTION);
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
    assert_true(cost.beside_count == 1);
    bench = own_bench(*state, OP_ATTENTION_BACKWARD);
    bench->program.block->ops->output_count = 4;
    check_price(bench, BOUND_COMPUTE, 3, backward_s + 2 * 8000.0 * 32 * 2 / 0.5e12);
    bench = own_bench(*state, OP_ATTENTION_BACKWARD);
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
    struct priced_attention *bench = bench_new(*state, OP_ATTENTION);
    struct op op = {.phase = PHASE_FORWARD, .work = {.multiplies = true}};
    struct compute_cost stream = {.s = 0.001, .bound = BOUND_MEMORY, .kernel_count = 3};
    struct compute_cost cost = products_price(&bench->context, &op, bench->attention, stream);
    check_near(cost.s, 0.02 + 3e-6);
    assert_int_equal(cost.bound, BOUND_COMPUTE);
    assert_true(cost.kernel_count == 3);
    op.phase = PHASE_BACKWARD;
    check_near(products_price(&bench->context, &op, bench->attention, stream).s, 0.04 + 3e-6);
    bench->stack.attention_backward_scale = 8;
    check_near(products_price(&bench->context, &op, bench->attention, stream).s, 0.01 + 3e-6);
    stream.s = 0.01 + 4e-6;
    check_near(products_price(&bench->context, &op, bench->attention, stream).s, stream.s);
    assert_int_equal(products_price(&bench->context, &op, bench->attention, stream).bound,
                     BOUND_MEMORY);
    stream.s = 0.001;
    op.work.multiplies = false;
    check_near(products_price(&bench->context, &op, bench->attention, stream).s, stream.s);
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
        cmocka_unit_test(what_has_no_fused_kernel_is_products_with_scores_in_memory),
        cmocka_unit_test(rules_say_what_has_no_fused_kernel),
        cmocka_unit_test(scores_of_some_heads_are_kept),
        cmocka_unit_test(heads_are_worked_on_while_scores_have_room),
        cmocka_unit_test(our_engine_adds_its_own_kernels),
        cmocka_unit_test(products_take_the_longer_of_flops_and_bytes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
