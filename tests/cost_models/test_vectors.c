#include "cost_models/money.h"
#include "cost_models/parameters.h"
#include "cost_models/stack.h"
#include "models/import.h"
#include "tests/support/graph_counts.h"
#include "tests/support/test.h"

#include <math.h>

// Figures that people know, from our own counts of parameters, bytes, flops and money. Each says by
// which recipe it comes about, because recipes differ: 2.8 TB and 2400 GB are both "GPT-3 with
// Adam".

static const double GB = 1e9, TB = 1e12;
static const double YEAR_S = 365.25 * 24 * 3600;

static const struct graph *graph_of(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static double parameters_of(struct arena *arena, const char *model)
{
    return (double)graph_parameter_count(graph_of(arena, model));
}

// Weight and gradient in the precision of the run, and the optimizer's state.
static double training_bytes(double parameters, enum precision precision, double gradient_bytes)
{
    struct stack stack = {.master_bytes = 4, .moment_bytes = 4};
    double state_bytes = stack_state_bytes(&stack, OPTIMIZER_ADAM, precision);
    return parameters * (parameter_weight_bytes(precision) + gradient_bytes + state_bytes);
}

static void check_near(double found, double expected, double tolerance_ratio)
{
    if (fabs(found / expected - 1) <= tolerance_ratio) return;
    print_error("found %.6g, expected %.6g\n", found, expected);
    fail();
}

// V1: Pangu 200B needs 3.6e23 flop; one Ascend 910 at its full 256 TFLOP/s takes 44 years. The flop
// are 6 a parameter and token, of 300 billion tokens.
static void pangu_takes_44_years_on_one_ascend_910(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "ascend-910-pod", &err);
    assert_string_equal(err.text, "");
    double peak = cluster->nodes[0].device->peak_flop_per_s[PRECISION_FP16];
    check_near(peak, 256e12, 1e-9);
    check_near(3.6e23 / peak / YEAR_S, 44.6, 0.001);

    const struct graph *graph = graph_of(*state, "pangu-200b");
    double matmul_flop_per_token = 6 * (double)graph_matmul_parameter_count(graph);
    check_near(matmul_flop_per_token * 300e9, 3.6e23, 0.05);
}

// V2: weights, gradients, state and activations of 4 TB: more than 100 cards of 32 GB. Weights,
// fp16 gradients and fp32 state are 16 bytes a parameter, 3.3 TB; the rest is activations.
static void pangu_fills_more_than_100_cards(void **state)
{
    double bytes = training_bytes(parameters_of(*state, "pangu-200b"), PRECISION_FP16, 2);
    assert_true(bytes < 4 * TB && bytes > 0.8 * 4 * TB);
    assert_true(ceil(bytes / (32 * GB)) > 100);
    assert_int_equal((int)ceil(4 * TB / (32 * GB)), 125);
}

// V3: fp32 throughout: 4 bytes a weight, and with its gradient and two moments 16.
static void gpt3_in_fp32_takes_700_gb_and_with_adam_2800(void **state)
{
    double parameters = parameters_of(*state, "gpt3-175b");
    check_near(parameters * parameter_weight_bytes(PRECISION_FP32), 700 * GB, 0.005);
    check_near(training_bytes(parameters, PRECISION_FP32, 4), 2.8 * TB, 0.005);
}

// V4: fp16 weights, fp32 master and moments, gradients not counted: 14 bytes.
static void gpt3_in_mixed_precision_takes_2400_gb(void **state)
{
    double bytes = training_bytes(parameters_of(*state, "gpt3-175b"), PRECISION_FP16, 0);
    check_near(bytes, 2400 * GB, 0.02);
    assert_true(bytes > 2400 * GB);
    assert_true(bytes / 30 > 80 * GB);  // no single server holds it
}

// V5: 16 bytes a parameter, and activations on top: more than 1.1 TB before the first of them.
static void llama_2_70b_takes_1200_gb_with_activations(void **state)
{
    double bytes = training_bytes(parameters_of(*state, "llama-2-70b"), PRECISION_FP16, 2);
    assert_true(bytes > 0.9 * 1200 * GB && bytes < 1200 * GB);
    assert_true(bytes > 13 * 80 * GB);
}

// V6: 16 bytes a parameter are 5.4 GB; 8 with the activations of a micro-batch.
static void bert_340m_takes_8_gb_with_activations(void **state)
{
    double bytes = training_bytes(parameters_of(*state, "bert-340m"), PRECISION_FP16, 2);
    assert_true(bytes > 5 * GB && bytes < 8 * GB);
}

// V7: 300 years of one A100 for 9.2 million dollars are 3.50 an hour. The tokens that take so long
// follow from any rate.
static void palm_costs_9_million_in_300_a100_years(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-a100-80g", &err);
    assert_string_equal(err.text, "");
    assert_true(cluster_take_gpus(cluster, 1, &err));
    cluster->price = (struct price){.per_gpu_hour = 3.5, .currency = "USD"};
    double tokens_per_s = 80;
    const struct money_request request = {.cluster = cluster,
                                          .step_s = 1,
                                          .step_tokens = tokens_per_s,
                                          .tokens = 300 * YEAR_S * tokens_per_s};
    struct money money = money_of(&request).money;
    check_near(money.total, 9.2e6, 0.005);
    check_near(money.gpu_hours, 2.63e6, 0.005);
}

// V8: 185 TFLOP/s on A100 are 59.3 % of its peak.
static void the_mfu_of_185_tflop_on_a100_is_59_percent(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-a100-80g", &err);
    assert_string_equal(err.text, "");
    double peak = cluster->nodes[0].device->peak_flop_per_s[PRECISION_BF16];
    check_near(185e12 / peak, 0.593, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pangu_takes_44_years_on_one_ascend_910),
        cmocka_unit_test(pangu_fills_more_than_100_cards),
        cmocka_unit_test(gpt3_in_fp32_takes_700_gb_and_with_adam_2800),
        cmocka_unit_test(gpt3_in_mixed_precision_takes_2400_gb),
        cmocka_unit_test(llama_2_70b_takes_1200_gb_with_activations),
        cmocka_unit_test(bert_340m_takes_8_gb_with_activations),
        cmocka_unit_test(palm_costs_9_million_in_300_a100_years),
        cmocka_unit_test(the_mfu_of_185_tflop_on_a100_is_59_percent),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
