#include "tests/support/test.h"

#include "executor/kernel.h"
#include "models/autodiff.h"
#include "tests/support/run_case.h"
#include "tests/support/tiny_models.h"
#include "tests/support/whole_model.h"

// Layers that hand on more than what they make of tokens, or are one: on one rank what plain loops
// over the whole model compute, and on several ranks what one computes, in double precision: of one
// step, since norms of narrow heads make more of what sums round than the tolerance has room for.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

#define GEMMA4                                                                        \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"intermediate_size\": 8, "              \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, "       \
    "\"global_head_dim\": 8, \"sliding_window\": 3, \"final_logit_softcapping\": 5, " \
    "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "    \
    "\"partial_rotary_factor\": 0.5, \"rope_theta\": 1e6}, \"sliding_attention\": "   \
    "{\"rope_type\": \"default\", \"rope_theta\": 10000}}"
#define WINDOW "\"sliding_attention\""
#define ALL "\"full_attention\""

static const char *const MODELS[] = {
    "{\"model_type\": \"albert\", \"vocab_size\": 40, \"embedding_size\": 6, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"intermediate_size\": 8, "
    "\"max_position_embeddings\": 8}",
    "{\"model_type\": \"gemma4_text\", " GEMMA4 ", \"vocab_size_per_layer_input\": 40, "
    "\"hidden_size_per_layer_input\": 8, \"num_hidden_layers\": 2, \"layer_types\": [" WINDOW
    ", " ALL "]}",
    "{\"model_type\": \"gemma4_text\", " GEMMA4 ", \"vocab_size_per_layer_input\": 40, "
    "\"hidden_size_per_layer_input\": 8, \"num_hidden_layers\": 7, \"num_kv_shared_layers\": 3, "
    "\"use_double_wide_mlp\": true, \"layer_types\": [" WINDOW ", " ALL ", " WINDOW ", " WINDOW
    ", " WINDOW ", " ALL ", " ALL "]}",
    "{\"model_type\": \"gemma3n_text\", \"vocab_size\": 40, \"vocab_size_per_layer_input\": 36, "
    "\"hidden_size\": 8, \"intermediate_size\": [12, 12, 12, 12, 12], \"num_hidden_layers\": 5, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, "
    "\"hidden_size_per_layer_input\": 6, \"laurel_rank\": 3, \"num_kv_shared_layers\": 2, "
    "\"sliding_window\": 3, \"activation_sparsity_pattern\": [0.7, 0, 0, 0, 0.7], "
    "\"layer_types\": [" WINDOW ", " ALL ", " WINDOW ", " WINDOW ", " ALL "]}",
    "{\"model_type\": \"gemma4_unified_text\", " GEMMA4 ", \"num_hidden_layers\": 2, "
    "\"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1, \"layer_types\": [" WINDOW
    ", " ALL "]}",
    "{\"model_type\": \"gemma4_unified_text\", " GEMMA4 ", \"num_hidden_layers\": 5, "
    "\"num_kv_shared_layers\": 2, \"layer_types\": [" ALL ", " ALL ", " WINDOW ", " WINDOW ", " ALL
    "]}",
    "{\"model_type\": \"gemma4_text\", " GEMMA4 ", \"hidden_size_per_layer_input\": 0, "
    "\"num_hidden_layers\": 2, \"enable_moe_block\": true, \"num_experts\": 4, "
    "\"top_k_experts\": 2, \"moe_intermediate_size\": 8, \"layer_types\": [" WINDOW ", " ALL "]}",
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

static void one_rank_computes_what_plain_loops_do(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_new(MODELS[m], SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", MODELS[m], difference);
        arena_reset(*state, mark);
    }
}

// Ways to share a model between ranks.
struct way {
    int dp, tp, cp, pp;
    bool sp;
    int zero;
    enum cp_kind cp_kind;
    enum recompute recompute;
    enum attention attention;
};
static const struct way WAYS[] = {
    {1, 2, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE, ATTENTION_FLASH},
    {1, 4, 1, 1, false, 1, CP_RING, RECOMPUTE_SELECTIVE, ATTENTION_UNFUSED},
    {1, 2, 1, 1, true, 1, CP_RING, RECOMPUTE_SELECTIVE, ATTENTION_UNFUSED},
    {2, 1, 1, 1, false, 3, CP_RING, RECOMPUTE_FULL, ATTENTION_FLASH},
    {1, 1, 1, 2, false, 0, CP_RING, RECOMPUTE_FULL, ATTENTION_FLASH},
    {1, 2, 1, 2, true, 1, CP_RING, RECOMPUTE_NONE, ATTENTION_FLASH},
    {1, 1, 2, 1, false, 0, CP_RING, RECOMPUTE_NONE, ATTENTION_FLASH},
    {1, 1, 2, 2, false, 2, CP_ALL_GATHER, RECOMPUTE_SELECTIVE, ATTENTION_FLASH},
    {1, 1, 2, 1, false, 0, CP_ULYSSES, RECOMPUTE_FULL, ATTENTION_FLASH},
    // Ranks that share a kv head have other tokens outside attention.
    {1, 4, 1, 1, true, 1, CP_RING, RECOMPUTE_NONE, ATTENTION_FLASH},
    {1, 1, 4, 1, false, 1, CP_ULYSSES, RECOMPUTE_SELECTIVE, ATTENTION_FLASH},
    {1, 2, 2, 1, true, 0, CP_ULYSSES, RECOMPUTE_FULL, ATTENTION_FLASH},
    {2, 4, 1, 1, true, 3, CP_RING, RECOMPUTE_FULL, ATTENTION_UNFUSED},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static struct run_case shared(const char *config, const struct way *way)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_DP] = way->dp;
    parallel->degree[AXIS_TP] = way->tp;
    parallel->degree[AXIS_CP] = way->cp;
    parallel->degree[AXIS_PP] = way->pp;
    parallel->cp_kind = way->cp_kind;
    parallel->sp = way->sp;
    parallel->zero = way->zero;
    parallel->recompute = way->recompute;
    parallel->attention = way->attention;
    parallel->micro_batch = 1;
    of.steps = 1;
    return of;
}

static void several_ranks_compute_what_one_does(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(MODELS[m], SEQ, BATCH);
        alone.steps = 1;
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int w = 0; w < WAY_COUNT; w++) {
            struct run_case of = shared(MODELS[m], &WAYS[w]);
            struct err why = {0};
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

// Experts beside an mlp, the last of the models.
static void experts_beside_an_mlp_lie_anywhere(void **state)
{
    const char *config = MODELS[MODEL_COUNT - 1];
    struct run_case alone = run_case_new(config, SEQ, BATCH);
    alone.steps = 1;
    struct run_outcome *expected = run_case_done(*state, &alone);
    for (int tp = 1; tp <= 2; tp++) {
        const struct way way = {
            2, tp, 1, 1, tp > 1, 2, CP_RING, RECOMPUTE_SELECTIVE, ATTENTION_FLASH};
        struct run_case of = shared(config, &way);
        of.parallel.degree[AXIS_EP] = 2 * tp;
        struct err why = {0};
        struct run_outcome *found = run_case_run(*state, &of, &why);
        if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
        const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

// The kernels of CUDA, on their emulation, in fp32: a number of each expert multiplies its rows.
static void experts_are_scaled_on_emulated_gpus_too(void **state)
{
    static const double SINGLE = 2e-5;
    static const int EP[] = {1, 2};
    for (int i = 0; i < 2; i++) {
        struct run_case of = run_case_new(MODELS[MODEL_COUNT - 1], SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        of.parallel.degree[AXIS_DP] = of.parallel.degree[AXIS_EP] = EP[i];
        of.parallel.micro_batch = BATCH / EP[i];
        struct run_case alone = of;
        of.backend = "cuda";
        struct run_outcome *expected = run_case_done(*state, &alone);
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = run_outcome_difference(*state, expected, found, SINGLE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

// Of their gradients neither.
static void scales_of_experts_are_not_cast_to_8_bits(void **state)
{
    struct graph *graph = tiny_graph(*state, MODELS[MODEL_COUNT - 1], &(struct import_options){0});
    int scales = 0, others = 0;
    for (int b = 0; b < graph->block_count; b++) {
        struct block_gradients gradients;
        const struct block *block = autodiff_block(*state, &graph->blocks[b], &gradients);
        for (int o = 0; o < block->op_count; o++) {
            struct kernel_call call = {.op = &block->ops[o]};
            bool scales_rows = strstr(call.op->name, "experts.scaled") != NULL;
            kernel_call_know_gemm(block, &call);
            scales += scales_rows && call.op->kind == OP_CONTRACT;
            others += call.is_linear;
            assert_false(scales_rows && call.is_linear);
        }
    }
    assert_true(scales >= 3 && others > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(several_ranks_compute_what_one_does),
        cmocka_unit_test(experts_beside_an_mlp_lie_anywhere),
        cmocka_unit_test(experts_are_scaled_on_emulated_gpus_too),
        cmocka_unit_test(scales_of_experts_are_not_cast_to_8_bits),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
