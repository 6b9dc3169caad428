#include "reports/table/attention_text.h"
#include "tests/support/proof_case.h"
#include "tests/support/test.h"

// What `plan` says of attention that our own back end has no fused kernel for: of which layers, and
// why, as price, memory and `run` know it.

static const char *text_of(struct arena *arena, const char *model, const char *stack,
                           enum precision precision)
{
    struct question_words words = proof_words(model, "dgx-h100", stack, 1024, 8);
    words.workload.precision = precision;
    struct proof_question question = proof_make(arena, &words);
    const struct search_request *request = &question.request;
    struct evaluation_request asked = {.model = request->model,
                                       .cluster = request->cluster,
                                       .stack = request->stack,
                                       .fabrics = request->fabrics,
                                       .workload = request->workload,
                                       .parallel = {.micro_batch = 1, .vpp = 1, .zero = 3}};
    struct parallel *parallel = &asked.parallel;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_DP] = 8;
    parallel->recompute_layers = -1;
    parallel->attention = ATTENTION_FLASH;
    parallel->passes = request->stack->passes;
    parallel->schedule = SCHEDULE_1F1B;
    parallel_default_order(parallel);
    struct evaluation evaluation = {0};
    struct arena scratch = {0};
    struct err err = {0};
    bool is_done = evaluate(arena, &scratch, &asked, &evaluation, &err);
    assert_string_equal(err.text, "");
    assert_true(is_done);
    const char *text = attention_text(arena, request->stack, &evaluation);
    arena_free(&scratch);
    return text;
}

static void layers_and_reasons_are_named(void **state)
{
    assert_string_equal(text_of(*state, "gpt2", "meshwright", PRECISION_BF16), "");
    assert_string_equal(text_of(*state, "gpt2", "meshwright", PRECISION_FP32),
                        "Attention of 12 layers by products, slower than fused: it is of fp32");
    // Other software has kernels of its own.
    assert_string_equal(text_of(*state, "gpt2", "megatron-core", PRECISION_FP32), "");
    // Heads of 512 in every sixth layer, of 256 in the others.
    assert_string_equal(text_of(*state, "gemma-4-12b", "meshwright", PRECISION_BF16),
                        "Attention of 8 of 48 layers by products, slower than fused: gradients of "
                        "heads wider than 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_and_reasons_are_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
