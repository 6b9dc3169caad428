#include "tests/support/test.h"

#include "tests/support/run_case.h"
#include "tests/support/whole_model.h"

// Models with layers that scan: on one rank what plain loops over the whole model compute,
// gradients of all parameters among it, and on several ranks what one computes, in double
// precision.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

#define MAMBA2                                                                         \
    "{\"model_type\": \"mamba2\", \"vocab_size\": 40, \"hidden_size\": 8, "            \
    "\"num_hidden_layers\": 2, \"num_heads\": 4, \"head_dim\": 4, \"state_size\": 6, " \
    "\"chunk_size\": 4"

#define NEMOTRON_H                                                              \
    "{\"model_type\": \"nemotron_h\", \"vocab_size\": 40, \"hidden_size\": 8, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 8, \"mamba_num_heads\": 4, \"mamba_head_dim\": 4, " \
    "\"ssm_state_size\": 6, \"chunk_size\": 4"

#define HYBRID                                                                     \
    "\"vocab_size\": 40, \"num_attention_heads\": 4, "                             \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 8, \"mamba_n_heads\": 4, " \
    "\"mamba_d_state\": 6, \"mamba_chunk_size\": 4, \"mamba_n_groups\": "

#define LFM2                                                             \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 3, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"intermediate_size\": 8, \"layer_types\": [\"conv\", \"full_attention\", \"conv\"]"

// By the gated delta rule, each other layer or each but the last.
#define QWEN3_NEXT                                                               \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_attention_heads\": 4, "       \
    "\"num_key_value_heads\": 2, \"head_dim\": 4, \"linear_num_key_heads\": 2, " \
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 6, "                \
    "\"linear_value_head_dim\": 4"
#define QWEN3_NEXT_EXPERTS                                                           \
    "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 4, " \
    "\"shared_expert_intermediate_size\": 8"

#define MAMBA1                                                           \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"state_size\": 6, \"intermediate_size\": 16, \"time_step_rank\": 3"

static const char *const MODELS[] = {
    MAMBA2 ", \"n_groups\": 1, \"tie_word_embeddings\": true}",
    MAMBA2 ", \"n_groups\": 2}",
    MAMBA2 ", \"n_groups\": 4, \"use_bias\": true, \"conv_kernel\": 2}",
    NEMOTRON_H ", \"n_groups\": 2, \"hybrid_override_pattern\": \"M*E-\", \"n_routed_experts\": 4, "
               "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 4, "
               "\"moe_shared_expert_intermediate_size\": 8}",
    NEMOTRON_H ", \"n_groups\": 1, \"hybrid_override_pattern\": \"M-*\", \"mlp_bias\": true}",
    MAMBA2 ", \"n_groups\": 2, \"use_conv_bias\": false, \"conv_kernel\": 1}",
    "{\"model_type\": \"falcon_h1\", \"hidden_size\": 8, \"num_hidden_layers\": 2, "
    "\"mamba_d_ssm\": 16, "
    "\"head_dim\": 4, \"key_multiplier\": 0.5, \"lm_head_multiplier\": 0.25, "
    "\"embedding_multiplier\": 2, " HYBRID "2}",
    "{\"model_type\": \"bamba\", \"hidden_size\": 16, \"num_hidden_layers\": 3, "
    "\"attn_layer_indices\": [1], "
    "\"mlp_bias\": true, " HYBRID "1}",
    "{\"model_type\": \"granitemoehybrid\", \"hidden_size\": 8, \"num_hidden_layers\": 2, "
    "\"layer_types\": [\"mamba\", \"attention\"], \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"shared_intermediate_size\": 8, "
    "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.25, "
    "\"residual_multiplier\": 0.5, \"logits_scaling\": 2, " HYBRID "1}",
    "{\"model_type\": \"lfm2\", " LFM2 ", \"block_multiple_of\": 4, \"conv_bias\": true}",
    "{\"model_type\": \"lfm2_moe\", " LFM2 ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 4, \"num_dense_layers\": 1}",
    "{\"model_type\": \"mamba\", " MAMBA1 ", \"use_bias\": true}",
    "{\"model_type\": \"falcon_mamba\", \"tie_word_embeddings\": false, " MAMBA1 "}",
    "{\"model_type\": \"jamba\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"intermediate_size\": 8, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"attn_layer_period\": 3, \"attn_layer_offset\": 1, \"mamba_d_state\": 6}",
};
enum { SCAN_COUNT = sizeof MODELS / sizeof *MODELS };

// And a model of steady scans.
static const char *const DELTA_MODELS[] = {
    "{\"model_type\": \"minimax\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"intermediate_size\": 4, \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"block_size\": 4, \"linear_attn_alpha_factor\": 2, "
    "\"mlp_beta_factor\": 0.5, \"layer_types\": [\"linear_attention\", \"full_attention\", "
    "\"linear_attention\"]}",
    "{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 3, \"intermediate_size\": 8, "
    "\"attention_bias\": true, \"mlp_only_layers\": [2], \"layer_types\": [\"linear_attention\", "
    "\"full_attention\", \"linear_attention\"], " QWEN3_NEXT ", " QWEN3_NEXT_EXPERTS "}",
    "{\"model_type\": \"qwen3_5_text\", \"num_hidden_layers\": 2, \"intermediate_size\": 8, "
    "\"full_attention_interval\": 2, \"tie_word_embeddings\": true, " QWEN3_NEXT "}",
    "{\"model_type\": \"qwen3_5_moe_text\", \"num_hidden_layers\": 2, "
    "\"full_attention_interval\": 2, " QWEN3_NEXT ", " QWEN3_NEXT_EXPERTS "}",
    "{\"model_type\": \"olmo_hybrid\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"intermediate_size\": 8, \"linear_num_key_heads\": 4, \"linear_num_value_heads\": 4, "
    "\"linear_key_head_dim\": 3, \"linear_value_head_dim\": 4, \"layer_types\": "
    "[\"linear_attention\", \"full_attention\"]}",
    "{\"model_type\": \"kimi_linear\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 8, "
    "\"q_lora_rank\": null, \"num_key_value_heads\": null, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 2, \"v_head_dim\": 3, "
    "\"num_experts\": 4, \"num_experts_per_token\": 2, \"num_shared_experts\": 1, "
    "\"moe_intermediate_size\": 4, \"linear_num_heads\": 4, \"linear_head_dim\": 6, "
    "\"layer_types\": [\"linear_attention\", \"full_attention\"]}",
};
enum { MODEL_COUNT = SCAN_COUNT + sizeof DELTA_MODELS / sizeof *DELTA_MODELS };

static const char *model_at(int m)
{
    if (m < SCAN_COUNT) return MODELS[m];
    return DELTA_MODELS[m - SCAN_COUNT];
}

static void one_rank_computes_what_plain_loops_do(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_new(model_at(m), SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", model_at(m), difference);
        arena_reset(*state, mark);
    }
}

// Ways to share a model between ranks.
struct way {
    int dp, tp, cp, pp;
    bool sp;
    int zero;
    enum recompute recompute;
};
static const struct way WAYS[] = {
    {1, 2, 1, 1, false, 0, RECOMPUTE_NONE},      {1, 2, 1, 1, true, 1, RECOMPUTE_NONE},
    {2, 1, 1, 1, false, 3, RECOMPUTE_NONE},      {1, 1, 1, 2, false, 0, RECOMPUTE_FULL},
    {1, 1, 2, 1, false, 0, RECOMPUTE_SELECTIVE}, {1, 2, 2, 1, true, 1, RECOMPUTE_NONE},
    {1, 4, 1, 1, false, 0, RECOMPUTE_NONE},
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
    parallel->cp_kind = CP_ULYSSES;
    parallel->sp = way->sp;
    parallel->zero = way->zero;
    parallel->recompute = way->recompute;
    parallel->micro_batch = 1;
    return of;
}

static void several_ranks_compute_what_one_does(void **state)
{
    int runs = 0;
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(model_at(m), SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int w = 0; w < WAY_COUNT; w++) {
            struct run_case of = shared(model_at(m), &WAYS[w]);
            struct err why = {0};
            struct run_outcome *found = run_case_run(*state, &of, &why);
            // A group whose norm is its own is whole on a rank.
            bool is_refused = strstr(why.text, "over which layers scan") != NULL;
            if (!found && is_refused && WAYS[w].tp * WAYS[w].cp > 2) continue;
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
            runs++;
        }
        arena_reset(*state, mark);
    }
    assert_true(runs >= 45);
}

// The kernels of CUDA, on their emulation, in fp32.
static void the_kernels_of_cuda_compute_it_too(void **state)
{
    static const double SINGLE = 2e-5;
    for (int m = 0; m < SCAN_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(MODELS[m], SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        struct run_case of = shared(MODELS[m], &WAYS[m % 2 ? 0 : 4]);
        of.backend = "cuda";
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = run_outcome_difference(*state, expected, found, SINGLE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        arena_reset(*state, mark);
    }
    // Adam would make much of what is lost of gradients that are almost zero.
    for (int m = SCAN_COUNT; m < MODEL_COUNT; m++) {
        struct run_case of = run_case_new(model_at(m), SEQ, BATCH);
        of.backend = "cuda";
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, SINGLE);
        if (difference) fail_msg("%s: %s", model_at(m), difference);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernels_of_cuda_compute_it_too),
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(several_ranks_compute_what_one_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
