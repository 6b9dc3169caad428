#include "cost_models/gemm.h"
#include "cost_models/parameters.h"
#include "cost_models/step.h"
#include "executor/kernel.h"
#include "models/op.h"
#include "simulator/closed_form.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// fp8 and fp4 runs: which products are narrow, and what quantising their operands costs.

static const double TOKENS = 2048;

static struct priced llama(struct arena *arena, const char *cluster, enum precision precision,
                           const struct stack *stack)
{
    struct priced of = priced_start(arena, "llama-3-8b", cluster, "megatron-core");
    if (stack) of.stack = stack;
    of.workload.precision = precision;
    priced_finish(&of);
    return of;
}

static double products_s(const struct priced *of, enum block_role role, enum phase phase)
{
    const struct block_program *block = priced_block(of, role);
    double sum_s = 0;
    for (int i = block->phase_first[phase]; i < block->phase_first[phase + 1]; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_CONTRACT) continue;
        sum_s += compute_price(&of->context.compute, block, instr).s;
    }
    return sum_s;
}

static const struct stack *casting(struct arena *arena, double bytes, bool cached)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *stack_load(arena, "megatron-core", &(struct err){0});
    stack->cast_bytes = bytes;
    stack->cast_kernels = 0;
    stack->cached_weight_cast = cached;
    return stack;
}

static double cast_s(struct arena *arena, enum phase phase, bool cached)
{
    struct priced with = llama(arena, "dgx-h100", PRECISION_FP8, casting(arena, 4, cached));
    struct priced without = llama(arena, "dgx-h100", PRECISION_FP8, casting(arena, 0, cached));
    return products_s(&with, BLOCK_LAYER, phase) - products_s(&without, BLOCK_LAYER, phase);
}

// Llama-3-8B: the inputs of qkv, out, gate and up, and down are 4096, 4096, 4096, 14336 wide, their
// outputs 6144, 4096, 28672, 4096. Weight gradients read what the others have quantised.
static void each_operand_is_quantised_once(void **state)
{
    struct priced of = llama(*state, "dgx-h100", PRECISION_FP8, NULL);
    double byte_s = stream_s(&of.context.compute, 1);
    double weights = 4096.0 * (6144 + 4096 + 28672 + 14336);
    double forward_s = 4 * TOKENS * 26624 * byte_s, backward_s = 4 * TOKENS * 43008 * byte_s;
    assert_true(fabs(cast_s(*state, PHASE_FORWARD, true) / forward_s - 1) < 1e-6);
    assert_true(fabs(cast_s(*state, PHASE_BACKWARD, true) / backward_s - 1) < 1e-6);
    assert_true(fabs(cast_s(*state, PHASE_WEIGHT, true)) < 1e-12);
    double uncached_s = forward_s + 4 * weights * byte_s;
    assert_true(fabs(cast_s(*state, PHASE_FORWARD, false) / uncached_s - 1) < 1e-6);

    int scales;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    struct compute_context context = of.context.compute;
    context.stack = casting(*state, 4, true);
    double once_s = weight_cast_s(&context, layer, &scales);
    assert_true(fabs(once_s / (4 * weights * byte_s) - 1) < 1e-6);
    assert_int_equal(scales, 3 * 7);
    context.stack = casting(*state, 4, false);
    assert_true(weight_cast_s(&context, layer, &scales) == 0);
    context.precision = PRECISION_BF16;
    weight_cast_s(&context, layer, &scales);
    assert_int_equal(scales, 0);
}

// The same model with an attention chain of its own, by a stack that has nothing else.
static struct priced unfused(struct arena *arena, enum precision precision)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "megatron-2021");
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *of.stack;
    stack->fp8_gemms = (1u << PHASE_COUNT) - 1;
    of.stack = stack;
    of.workload.precision = precision;
    priced_finish(&of);
    return of;
}

static void the_head_stays_in_bf16(void **state)
{
    struct priced wide = llama(*state, "dgx-h100", PRECISION_BF16, NULL);
    struct priced narrow = llama(*state, "dgx-h100", PRECISION_FP8, NULL);
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
        double head_s = products_s(&wide, BLOCK_HEAD, phase);
        assert_true(products_s(&narrow, BLOCK_HEAD, phase) == head_s);
        double layer_s = products_s(&wide, BLOCK_LAYER, phase);
        assert_true(products_s(&narrow, BLOCK_LAYER, phase) < 0.75 * layer_s);
    }
}

// Where the stack says so and matrix units take block scales. Its weight of 4096 by 128256, which
// no other product reads, is quantised once a step.
static void a_narrow_head_needs_block_scales(void **state)
{
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *casting(*state, 4, true);
    stack->narrow_head = true;
    struct priced wide = llama(*state, "dgx-b200", PRECISION_BF16, stack);
    struct priced narrow = llama(*state, "dgx-b200", PRECISION_FP8, stack);
    struct priced older = llama(*state, "dgx-h100", PRECISION_FP8, stack);
    struct priced older_wide = llama(*state, "dgx-h100", PRECISION_BF16, stack);
    struct priced finer = llama(*state, "dgx-b200", PRECISION_FP4, stack);
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
        double head_s = products_s(&wide, BLOCK_HEAD, phase);
        assert_true(products_s(&narrow, BLOCK_HEAD, phase) < 0.6 * head_s);
        assert_true(products_s(&finer, BLOCK_HEAD, phase) == head_s);
        assert_true(products_s(&older, BLOCK_HEAD, phase) ==
                    products_s(&older_wide, BLOCK_HEAD, phase));
    }
    int scales;
    const struct block_program *head = priced_block(&narrow, BLOCK_HEAD);
    double once_s = weight_cast_s(&narrow.context.compute, head, &scales);
    double bytes = 4.0 * 4096 * 128256;
    assert_true(fabs(once_s / stream_s(&narrow.context.compute, bytes) - 1) < 1e-6);
    assert_int_equal(scales, 3);
    assert_true(weight_cast_s(&older.context.compute, head, &scales) == 0 && scales == 0);
}

static void products_of_activations_stay_in_bf16(void **state)
{
    struct priced wide = unfused(*state, PRECISION_BF16);
    struct priced narrow = unfused(*state, PRECISION_FP8);
    const struct block_program *block = priced_block(&wide, BLOCK_LAYER);
    int alike_count = 0, narrow_count = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_CONTRACT) continue;
        double wide_s = compute_price(&wide.context.compute, block, instr).s;
        double narrow_s = compute_price(&narrow.context.compute, block, instr).s;
        if (wide_s == 0) continue;  // another does its work
        const struct op *ops = block->block->ops;
        bool is_core = ops[ops[instr->op].forward_op].class == OP_CLASS_ATTENTION;
        assert_true((wide_s == narrow_s) == is_core);
        *(is_core ? &alike_count : &narrow_count) += 1;
    }
    // Scores and context, each with two gradients; q, k, v as one, three others, three phases.
    assert_int_equal(alike_count, 6);
    assert_int_equal(narrow_count, 12);
}

// Where no product before has quantised them, the weight gradient quantises both of its operands.
static void a_weight_gradient_quantises_what_nothing_has_before(void **state)
{
    struct stack *with = ARENA_NEW(*state, struct stack, 1);
    struct stack *without = ARENA_NEW(*state, struct stack, 1);
    *with = *casting(*state, 4, true);
    *without = *casting(*state, 0, true);
    with->fp8_gemms = without->fp8_gemms = 1u << PHASE_WEIGHT;
    struct priced casts = llama(*state, "dgx-h100", PRECISION_FP8, with);
    struct priced plain = llama(*state, "dgx-h100", PRECISION_FP8, without);
    double more_s = products_s(&casts, BLOCK_LAYER, PHASE_WEIGHT) -
                    products_s(&plain, BLOCK_LAYER, PHASE_WEIGHT);
    double expected_s = stream_s(&casts.context.compute, 4 * TOKENS * (26624 + 43008));
    assert_true(fabs(more_s / expected_s - 1) < 1e-6);
}

// Products named by the stack alone are narrow: with none in the weight phase it costs as in bf16.
static void a_phase_that_the_stack_leaves_out_stays_in_bf16(void **state)
{
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *stack_load(*state, "megatron-core", &(struct err){0});
    struct priced wide = llama(*state, "dgx-h100", PRECISION_BF16, stack);
    stack->fp8_gemms = 1u << PHASE_FORWARD | 1u << PHASE_BACKWARD;
    struct priced narrow = llama(*state, "dgx-h100", PRECISION_FP8, stack);
    double wide_s = products_s(&wide, BLOCK_LAYER, PHASE_WEIGHT);
    assert_true(products_s(&narrow, BLOCK_LAYER, PHASE_WEIGHT) == wide_s);
    double forward_s = products_s(&wide, BLOCK_LAYER, PHASE_FORWARD);
    assert_true(products_s(&narrow, BLOCK_LAYER, PHASE_FORWARD) < 0.8 * forward_s);
}

static void fp4_gains_over_fp8_on_blackwell(void **state)
{
    double phase_s[PRECISION_COUNT] = {0};
    static const enum precision PRECISIONS[] = {PRECISION_BF16, PRECISION_FP8, PRECISION_FP4};
    for (int i = 0; i < 3; i++) {
        struct priced of = llama(*state, "dgx-b200", PRECISIONS[i], NULL);
        phase_s[PRECISIONS[i]] = products_s(&of, BLOCK_LAYER, PHASE_FORWARD);
    }
    assert_true(phase_s[PRECISION_FP8] < 0.75 * phase_s[PRECISION_BF16]);
    assert_true(phase_s[PRECISION_FP4] < 0.85 * phase_s[PRECISION_FP8]);
}

static void delayed_scaling_reduces_its_maxima_once_a_step(void **state)
{
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *stack_load(*state, "megatron-core", &(struct err){0});
    struct priced now = llama(*state, "dgx-h100", PRECISION_FP8, stack);
    stack->delayed_scaling = true;
    struct priced later = llama(*state, "dgx-h100", PRECISION_FP8, stack);
    struct group_shape group = mesh_group(&now.program->mesh, now.cluster, 1);
    double bytes = 4.0 * 3 * 7 * 32;
    double reduce_s = collective_price(now.fabrics, &group, COLLECTIVE_ALL_REDUCE, bytes, 1).s;
    double more_s = later.price->classes[0].small_reduce_s - now.price->classes[0].small_reduce_s;
    assert_true(reduce_s > 0 && fabs(more_s / reduce_s - 1) < 1e-9);
}

static double step_of(struct arena *arena, enum precision precision)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "megatron-core");
    of.parallel.degree[AXIS_CP] = 2;
    of.parallel.zero = 1;
    of.workload.precision = precision;
    of.workload.seq_len = 8192;
    of.workload.global_batch = 128;
    priced_finish(&of);
    return closed_form(of.price).step_s;
}

// Published (NVIDIA DGX Cloud recipes, Llama-3-8B on 8 H100, 8192 tokens, cp 2, batch 128): 12.3 s
// in bf16, 9.4 s in fp8. The GEMMs alone gain more.
static void fp8_on_hopper_gains_a_third_end_to_end(void **state)
{
    double gain = step_of(*state, PRECISION_BF16) / step_of(*state, PRECISION_FP8);
    assert_true(gain > 1.3 && gain < 1.4);
    struct priced of = llama(*state, "dgx-h100", PRECISION_BF16, NULL);
    struct compute_context narrow = of.context.compute;
    narrow.precision = PRECISION_FP8;
    enum bound bound;
    struct gemm gemm = {1, 8192, 14336, 4096};
    double alone =
        gemm_s(&of.context.compute, &gemm, 0, &bound) / gemm_s(&narrow, &gemm, 0, &bound);
    assert_true(alone > 1.15 * gain && alone < 2);
}

// Seconds of a layer's tp collectives, none hidden.
static double tp_s(struct arena *arena, enum precision precision, bool low_precision_gathers,
                   bool sp)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *stack_load(arena, "megatron-core", &(struct err){0});
    stack->low_precision_gathers = low_precision_gathers;
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "megatron-core");
    of.stack = stack;
    of.workload.precision = precision;
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.sp = sp;
    of.parallel.micro_batch = 64;  // bandwidth is all that counts
    of.parallel.overlap = 0;
    priced_finish(&of);
    struct block_price layer =
        block_price(&of.context, &of.program->mesh, priced_block(&of, BLOCK_LAYER), 0);
    double sum_s = 0;
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++)
        sum_s += layer.phase_s[phase][PART_TP];
    return sum_s;
}

// Six gathers and four scatters a layer; half of the bytes of the former is three tenths of all.
static void operands_are_gathered_after_they_are_quantised(void **state)
{
    double wide_s = tp_s(*state, PRECISION_BF16, true, true);
    assert_true(tp_s(*state, PRECISION_FP8, false, true) == wide_s);
    double ratio = tp_s(*state, PRECISION_FP8, true, true) / wide_s;
    assert_true(ratio > 0.69 && ratio < 0.71);
    // Without sequence parallelism there is nothing to gather.
    assert_true(tp_s(*state, PRECISION_FP8, true, false) ==
                tp_s(*state, PRECISION_FP8, false, false));
}

// Seconds in which updated parameters come back, bandwidth being all that counts.
static double gather_s(struct arena *arena, const char *cluster, enum precision precision,
                       bool narrow, double *linear_share)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *stack_load(arena, "megatron-core", &(struct err){0});
    stack->narrow_weights = narrow;
    struct priced of = priced_start(arena, "llama-3-8b", cluster, "megatron-core");
    of.stack = stack;
    of.workload.precision = precision;
    of.parallel.degree[AXIS_DP] = 8;
    of.parallel.zero = 1;
    priced_finish(&of);
    double linear = 32 * (double)priced_block(&of, BLOCK_LAYER)->linear_elements;
    struct parameter_sums sums = parameter_sums(of.program, &of.program->chunks[0]);
    *linear_share = linear / sums.elements[PARAMETER_DENSE];
    return step_price(arena, &of.context, of.program)->classes[0].parameter_gather_s;
}

// Llama-3-8B: 6.98 of 8.03 B parameters are those of products in fp8, which come back in half of
// the bytes; with block scales, which differ between a weight and its transpose, in 16 bits.
static void weights_kept_in_fp8_come_back_so(void **state)
{
    double share;
    double wide_s = gather_s(*state, "dgx-h100", PRECISION_BF16, true, &share);
    assert_true(share > 0.868 && share < 0.870);
    assert_true(gather_s(*state, "dgx-h100", PRECISION_FP8, false, &share) == wide_s);
    double narrow_s = gather_s(*state, "dgx-h100", PRECISION_FP8, true, &share);
    assert_true(fabs(narrow_s / wide_s - (1 - share / 2)) < 0.01);
    assert_true(gather_s(*state, "dgx-b200", PRECISION_FP8, true, &share) ==
                gather_s(*state, "dgx-b200", PRECISION_BF16, true, &share));
}

// What is priced in 8 bits is what the executor takes for a GEMM of a layer with its parameters,
// each by rules of its own: neither products of activations nor routers, which choose by the last
// bits of their scores, nor heads.
static void the_executor_has_the_same_products_in_8_bits(void **state)
{
    static const char *const MODELS[] = {"llama-3-8b", "mixtral-8x7b", "deepseek-v3"};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct priced of = priced_start(*state, MODELS[m], "dgx-h100", "meshwright");
        of.workload.precision = PRECISION_FP8;
        priced_finish(&of);
        int counts[2] = {0}, router_count = 0;
        for (int b = 0; b < of.program->block_count; b++) {
            const struct block_program *block = of.program->blocks[b];
            for (int i = 0; i < block->instr_count; i++) {
                const struct instr *instr = &block->instrs[i];
                if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_CONTRACT) continue;
                const struct op *op = &block->block->ops[instr->op];
                struct kernel_call call = {.op = op};
                kernel_call_know_gemm(block->block, &call);
                bool is_priced = gemm_is_low_precision(&of.context.compute, block, instr);
                assert_int_equal(call.is_linear, is_priced);
                counts[is_priced]++;
                router_count += op_has_dim(block->block, op, DIM_GATE);
            }
        }
        assert_true(counts[0] > 0 && counts[1] > 0);
        assert_int_equal(router_count > 0, m > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operand_is_quantised_once),
        cmocka_unit_test(the_head_stays_in_bf16),
        cmocka_unit_test(a_narrow_head_needs_block_scales),
        cmocka_unit_test(products_of_activations_stay_in_bf16),
        cmocka_unit_test(a_weight_gradient_quantises_what_nothing_has_before),
        cmocka_unit_test(a_phase_that_the_stack_leaves_out_stays_in_bf16),
        cmocka_unit_test(fp4_gains_over_fp8_on_blackwell),
        cmocka_unit_test(delayed_scaling_reduces_its_maxima_once_a_step),
        cmocka_unit_test(fp8_on_hopper_gains_a_third_end_to_end),
        cmocka_unit_test(operands_are_gathered_after_they_are_quantised),
        cmocka_unit_test(weights_kept_in_fp8_come_back_so),
        cmocka_unit_test(the_executor_has_the_same_products_in_8_bits),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
