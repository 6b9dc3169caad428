#include "tests/support/priced_attention.h"

#include "cost_models/attention_unfused.h"

#include <math.h>

struct priced_attention *priced_attention_new(struct arena *arena, enum op_kind kind)
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

struct priced_attention *priced_attention_own(struct arena *arena, enum op_kind kind)
{
    struct priced_attention *bench = priced_attention_new(arena, kind);
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

void check_near(double s, double by_hand_s)
{
    if (fabs(s / by_hand_s - 1) > 1e-9) {
        print_error("%.12g s, by hand %.12g s\n", s, by_hand_s);
        fail();
    }
}

void check_price(const struct priced_attention *bench, enum bound bound, double kernels, double s)
{
    struct compute_cost cost = attention_price(&bench->context, &bench->program, bench->attention);
    check_near(cost.s, s + kernels * 1e-6);
    assert_int_equal(cost.bound, bound);
    assert_true(cost.kernel_count == kernels);
}
