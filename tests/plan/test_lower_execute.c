#include "tests/support/test.h"

#include "models/op_linear_loss.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// The algebra of layouts, end to end: lowered blocks of every family compute on all ranks of a
// small mesh what the block that nobody split does. See tests/support/machine.h.

enum { MICRO_BATCH = 2 };

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"attention_bias\": true, \"mlp_bias\": true}";
static const char QWEN3[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4}";
static const char FALCON[] =
    "{\"model_type\": \"falcon\", \"vocab_size\": 11, \"hidden_size\": 16, \"bias\": true, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4}";
static const char NEOX[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 11, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8}";
static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 4, "
    "\"n_positions\": 9}";
static const char BLOOM[] = "{\"model_type\": \"bloom\", \"vocab_size\": 11, "
                            "\"hidden_size\": 8, \"n_layer\": 1, \"n_head\": 4}";
static const char GEMMA2[] =
    "{\"model_type\": \"gemma2\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 4, \"sliding_window\": 3}";
static const char BERT[] =
    "{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"max_position_embeddings\": 9}";

#define EXPERTS                                                                 \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "        \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 8"
static const char MIXTRAL[] = "{\"model_type\": \"mixtral\", " EXPERTS
                              ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}";
static const char QWEN2_MOE[] =
    "{\"model_type\": \"qwen2_moe\", " EXPERTS
    ", \"num_experts\": 8, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "
    "\"shared_expert_intermediate_size\": 4, \"norm_topk_prob\": true}";
static const char DEEPSEEK[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_group\": null, "
    "\"n_routed_experts\": 8, \"n_shared_experts\": 1, \"num_experts_per_tok\": 3, "
    "\"moe_intermediate_size\": 4, "
    "\"first_k_dense_replace\": 0}";
// Two of the keys are chosen.
static const char INDEXED[] =
    "{\"model_type\": \"deepseek_v32\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_group\": null, "
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "
    "\"first_k_dense_replace\": 1, \"index_n_heads\": 3, \"index_head_dim\": 4, "
    "\"index_topk\": 2}";
// Scores that look distances up.
static const char DISTANCES[] =
    "{\"model_type\": \"deberta-v2\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8, "
    "\"max_position_embeddings\": 9, \"type_vocab_size\": 0, \"relative_attention\": true, "
    "\"position_buckets\": 4, \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, "
    "\"pos_att_type\": \"p2c|c2p\"}";
static const char *const MIXTURES[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK};
enum { MIXTURE_COUNT = sizeof MIXTURES / sizeof *MIXTURES };

static const char *const MODELS[] = {LLAMA,
                                     QWEN3,
                                     FALCON,
                                     NEOX,
                                     GPT2,
                                     BLOOM,
                                     GEMMA2,
                                     BERT,
                                     TINY_DEEPSEEK_DENSE,
                                     TINY_DEEPSEEK_MTP,
                                     INDEXED,
                                     DISTANCES};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

struct degrees {
    int tp;
    bool sp;
    int cp, dp, zero;
    enum cp_kind cp_kind;
    int ep, etp;  // 0 = 1
};

static const struct degrees CASES[] = {
    {1, false, 1, 1, 0, CP_RING, 0, 0},       {2, false, 1, 1, 0, CP_RING, 0, 0},
    {2, true, 1, 1, 0, CP_RING, 0, 0},        {4, false, 1, 1, 0, CP_RING, 0, 0},
    {4, true, 1, 1, 0, CP_RING, 0, 0},        {1, false, 1, 2, 0, CP_RING, 0, 0},
    {1, false, 2, 1, 0, CP_RING, 0, 0},       {2, true, 2, 1, 0, CP_RING, 0, 0},
    {4, true, 1, 2, 3, CP_RING, 0, 0},        {2, true, 2, 2, 2, CP_RING, 0, 0},
    {2, false, 2, 1, 1, CP_RING, 0, 0},       {4, true, 2, 2, 3, CP_RING, 0, 0},
    {1, false, 4, 1, 0, CP_ALL_GATHER, 0, 0}, {2, true, 4, 1, 0, CP_ALL_GATHER, 0, 0},
    {1, false, 2, 1, 0, CP_ULYSSES, 0, 0},    {1, false, 4, 1, 0, CP_ULYSSES, 0, 0},
    {2, false, 2, 1, 0, CP_ULYSSES, 0, 0},    {2, true, 2, 2, 3, CP_ULYSSES, 0, 0},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

// Where the experts lie: on dp, on tp, on both, on cp; whole or split inside; of all sizes.
static const struct degrees MIXTURE_CASES[] = {
    {1, false, 1, 4, 0, CP_RING, 4, 1},    {1, false, 1, 4, 2, CP_RING, 2, 1},
    {2, true, 1, 2, 0, CP_RING, 4, 1},     {2, true, 1, 4, 3, CP_RING, 4, 1},
    {2, false, 1, 2, 0, CP_RING, 4, 1},    {2, false, 1, 2, 2, CP_RING, 2, 1},
    {2, true, 1, 2, 0, CP_RING, 2, 2},     {2, false, 1, 4, 3, CP_RING, 2, 2},
    {4, true, 1, 2, 1, CP_RING, 4, 2},     {4, false, 1, 2, 0, CP_RING, 4, 2},
    {4, true, 1, 2, 2, CP_RING, 2, 1},     {4, false, 1, 2, 2, CP_RING, 2, 1},
    {2, true, 2, 2, 3, CP_RING, 8, 1},     {2, false, 2, 2, 0, CP_RING, 2, 2},
    {1, false, 2, 2, 2, CP_ULYSSES, 2, 1}, {2, true, 2, 2, 3, CP_ULYSSES, 4, 1},
    {1, false, 4, 2, 0, CP_ULYSSES, 4, 1}, {1, false, 1, 4, 0, CP_RING, 2, 2},
    {2, true, 1, 2, 0, CP_RING, 1, 1},     {2, false, 1, 2, 2, CP_RING, 1, 1},
    {2, false, 1, 2, 0, CP_RING, 1, 2},    {4, true, 2, 2, 2, CP_RING, 2, 1},
};
enum { MIXTURE_CASE_COUNT = sizeof MIXTURE_CASES / sizeof *MIXTURE_CASES };

static void check_model(struct arena *arena, const char *text, struct degrees degrees,
                        enum recompute recompute, bool is_flash)
{
    struct arena_mark mark = arena_mark(arena);
    // Refused (plan/scan_check.c).
    if (text == DISTANCES && degrees.cp_kind == CP_ULYSSES) return;
    struct import_options options = {.flash = is_flash, .vocab_multiple = 4};
    struct graph *graph = tiny_graph(arena, text, &options);
    if (degrees.zero % 2 || degrees.tp == 4) match_loss_graph(arena, graph, 3);
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .vpp = 1,
                                .micro_batch = MICRO_BATCH,
                                .sp = degrees.sp,
                                .zero = degrees.zero,
                                .cp_kind = degrees.cp_kind};
    parallel.degree[AXIS_TP] = degrees.tp;
    parallel.degree[AXIS_CP] = degrees.cp;
    parallel.degree[AXIS_DP] = degrees.dp;
    parallel.degree[AXIS_EP] = degrees.ep ? degrees.ep : 1;
    parallel.degree[AXIS_ETP] = degrees.etp ? degrees.etp : 1;
    struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
    assert_true(mesh.rank_count <= MACHINE_RANK_MAX);
    for (int b = 0; b < graph->block_count; b++) {
        machine_check(arena, &graph->blocks[b], &mesh, &parallel, recompute);
    }
    arena_reset(arena, mark);
}

static void split_blocks_compute_what_whole_blocks_do(void **state)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        for (int c = 0; c < CASE_COUNT; c++) {
            check_model(*state, MODELS[i], CASES[c], RECOMPUTE_NONE, true);
        }
    }
}

static void recomputed_blocks_compute_what_kept_ones_do(void **state)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        for (int c = 0; c < CASE_COUNT; c += 4) {
            check_model(*state, MODELS[i], CASES[c], RECOMPUTE_SELECTIVE, true);
            check_model(*state, MODELS[i], CASES[c], RECOMPUTE_FULL, true);
        }
    }
}

static void the_unfused_chain_splits_like_the_fused_kernel(void **state)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        for (int c = 1; c < CASE_COUNT; c += 3) {
            check_model(*state, MODELS[i], CASES[c], (enum recompute)(c % RECOMPUTE_COUNT), false);
        }
    }
}

static void experts_compute_the_same_wherever_they_lie(void **state)
{
    for (int i = 0; i < MIXTURE_COUNT; i++) {
        for (int c = 0; c < MIXTURE_CASE_COUNT; c++) {
            check_model(*state, MIXTURES[i], MIXTURE_CASES[c], RECOMPUTE_NONE, true);
        }
    }
}

static void recomputed_experts_compute_what_kept_ones_do(void **state)
{
    for (int i = 0; i < MIXTURE_COUNT; i++) {
        for (int c = i % 2; c < MIXTURE_CASE_COUNT; c += 2) {
            check_model(*state, MIXTURES[i], MIXTURE_CASES[c],
                        (enum recompute)(1 + c / 2 % (RECOMPUTE_COUNT - 1)), c % 8 < 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_blocks_compute_what_whole_blocks_do),
        cmocka_unit_test(recomputed_blocks_compute_what_kept_ones_do),
        cmocka_unit_test(the_unfused_chain_splits_like_the_fused_kernel),
        cmocka_unit_test(experts_compute_the_same_wherever_they_lie),
        cmocka_unit_test(recomputed_experts_compute_what_kept_ones_do),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
