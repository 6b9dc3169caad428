#include "tests/support/priced.h"
#include "tests/support/random_question.h"
#include "tests/support/test.h"

#include <math.h>

// Attention at the rate of the precision it runs in, under the limit of its kernels, and no price
// above a peak.

static double attention_s(const struct priced *of, enum op_kind kind)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    double sum_s = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        if (layer->instrs[i].kind == kind)
            sum_s += compute_price(&of->context.compute, layer, &layer->instrs[i]).s;
    }
    assert_true(sum_s > 0);
    return sum_s;
}

static struct priced long_llama(struct arena *arena, const char *cluster, const char *stack,
                                enum precision precision)
{
    struct priced of = priced_start(arena, "llama-3-8b", cluster, stack);
    of.workload.seq_len = 16384;
    of.workload.precision = precision;
    priced_finish(&of);
    return of;
}

static void attention_runs_at_the_peak_of_its_precision(void **state)
{
    struct priced half = long_llama(*state, "dgx-h100", "megatron-core", PRECISION_BF16);
    struct priced narrow = long_llama(*state, "dgx-h100", "megatron-core", PRECISION_FP8);
    struct priced full = long_llama(*state, "dgx-h100", "megatron-core", PRECISION_FP32);
    const double *peak = full.context.compute.device->peak_flop_per_s;
    const enum op_kind kinds[] = {OP_ATTENTION, OP_ATTENTION_BACKWARD};
    for (int i = 0; i < 2; i++) {
        enum op_kind kind = kinds[i];
        double ratio = attention_s(&full, kind) / attention_s(&half, kind);
        double peaks = peak[PRECISION_BF16] / peak[PRECISION_FP32];
        // Exponentials take as long in either.
        assert_true(ratio > 0.6 * peaks && ratio <= peaks);
        assert_true(attention_s(&narrow, kind) == attention_s(&half, kind));
    }
}

// B300 has the matrix units of B200 and twice its exponentials.
static void more_exponentials_are_never_slower(void **state)
{
    static const char *const STACKS[] = {"fsdp", "fsdp2", "colossalai", "internevo",
                                         "megatron-core"};
    for (size_t i = 0; i < sizeof STACKS / sizeof *STACKS; i++) {
        struct priced of = long_llama(*state, "dgx-b200", STACKS[i], PRECISION_BF16);
        struct device *device = device_copy(*state, of.context.compute.device);
        double forward_s = attention_s(&of, OP_ATTENTION);
        double backward_s = attention_s(&of, OP_ATTENTION_BACKWARD);
        device->exponential_per_s *= 2;
        of.context.compute.device = device;
        assert_true(attention_s(&of, OP_ATTENTION) <= forward_s);
        assert_true(attention_s(&of, OP_ATTENTION_BACKWARD) <= backward_s);
    }
}

// Even where a stack claims four times what a device reaches at best: MFU over 100 % is an
// assertion of evaluate.
static void no_stack_computes_faster_than_the_peak(void **state)
{
    (void)state;
    struct draw draw = draw_start("peaks of rates", 12);
    double most = 0;
    for (int i = 0; i < 200; i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        struct evaluation_request *request = &question.request;
        struct stack *stack = stack_copy(&arena, request->stack);
        stack->gemm_scale = stack->attention_forward_scale = stack->attention_backward_scale = 4;
        stack->attention_flop_per_s_most = 0;
        request->stack = stack;
        request->parallel.recompute = RECOMPUTE_NONE;
        if (random_question_try(&arena, &question))
            most = fmax(most, question.evaluation.prediction.mfu_ratio);
        arena_free(&arena);
    }
    assert_true(most > 0.7 && most <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_runs_at_the_peak_of_its_precision),
        cmocka_unit_test(more_exponentials_are_never_slower),
        cmocka_unit_test(no_stack_computes_faster_than_the_peak),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
