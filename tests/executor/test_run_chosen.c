#include "tests/support/test.h"

#include "plan/layout/rules.h"
#include "tests/support/run_way.h"
#include "tests/support/tiny_models.h"
#include "tests/support/whole_model.h"

#include <math.h>

// Attention to chosen keys: on one rank what plain loops over the whole model compute, gradients of
// all parameters among it, and on several ranks what one computes, in double precision.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

#define INDEXED                                                                          \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"intermediate_size\": 8, "                 \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": "                              \
    "null, \"q_lora_rank\": 6, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, "           \
    "\"qk_rope_head_dim\": 2, \"v_head_dim\": 5, \"n_group\": null, "                    \
    "\"n_routed_experts\": 4, \"n_shared_experts\": 1, \"num_experts_per_tok\": 2, "     \
    "\"moe_intermediate_size\": 4, \"first_k_dense_replace\": 1, \"index_n_heads\": 3, " \
    "\"index_head_dim\": 6, \"index_topk\": "
#define LAYERS(count) ", \"num_hidden_layers\": " #count

static const char *const MODELS[] = {
    "{\"model_type\": \"deepseek_v32\", " INDEXED "3" LAYERS(2) "}",
    "{\"model_type\": \"glm_moe_dsa\", " INDEXED "2" LAYERS(2) ", \"num_nextn_predict_layers\": 1}",
    "{\"model_type\": \"glm_moe_dsa\", " INDEXED "2" LAYERS(4) ", \"index_topk_freq\": 3}",
    "{\"model_type\": \"glm_moe_dsa\", " INDEXED "3" LAYERS(3) ", \"index_topk_pattern\": \"FSF\"}",
    "{\"model_type\": \"hy_v4\", " INDEXED
    "3" LAYERS(3) ", \"hc_mult\": 3, \"swiglu_limit\": 0.01, "
                  "\"hc_magnitude\": 1.5, \"hc_eps\": 0.01}",
    "{\"model_type\": \"deepseek_v32\", " INDEXED "20" LAYERS(2) "}",
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

// Where as many keys are chosen as there are, it is attention to all of them.
static void choosing_all_keys_is_attention_to_all(void **state)
{
    struct run_case chosen = run_case_new(MODELS[MODEL_COUNT - 1], SEQ, BATCH), of = chosen;
    chosen.steps = of.steps = 1;
    of.config = arena_print(*state, "{\"model_type\": \"deepseek_v3\", "
                                    "\"num_nextn_predict_layers\": 0, " INDEXED "0" LAYERS(2) "}");
    struct run_outcome *a = run_case_done(*state, &chosen), *b = run_case_done(*state, &of);
    assert_true(fabs(a->loss[0] - b->loss[0]) < TOLERANCE);
    struct run_case fewer = run_case_new(MODELS[0], SEQ, BATCH);
    fewer.steps = 1;
    a = run_case_done(*state, &fewer);
    assert_true(fabs(a->loss[0] - b->loss[0]) > 1e-9);
}

// Ways to share a model between ranks.
static const struct run_way WAYS[] = {
    {1, 2, 1, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE},
    {1, 2, 1, 1, 1, true, 1, CP_RING, RECOMPUTE_SELECTIVE},
    {2, 1, 1, 1, 2, false, 3, CP_RING, RECOMPUTE_NONE},
    {1, 1, 1, 2, 1, false, 0, CP_RING, RECOMPUTE_FULL},
    {1, 1, 2, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE},
    {1, 1, 2, 1, 1, false, 2, CP_ALL_GATHER, RECOMPUTE_FULL},
    {1, 1, 2, 1, 1, false, 0, CP_ULYSSES, RECOMPUTE_NONE},
    {1, 2, 2, 1, 1, true, 1, CP_RING, RECOMPUTE_NONE},
    {2, 2, 1, 1, 1, true, 2, CP_RING, RECOMPUTE_SELECTIVE},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static void several_ranks_compute_what_one_does(void **state)
{
    for (int m = 0; m < MODEL_COUNT - 1; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(MODELS[m], SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int w = 0; w < WAY_COUNT; w++) {
            struct run_case of = run_case_split(MODELS[m], SEQ, BATCH, &WAYS[w]);
            struct run_outcome *found = run_case_done(*state, &of);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

// Whatever dim tp splits in an indexer, the zeros are where its parameters are.
static void zeros_lie_as_their_parameters_do(void **state)
{
    static const struct layout_rule RULES[] = {
        {.operator= "layer.dense.indexer.q", .axis = AXIS_TP, .dim = DIM_RANK},
        {.operator= "layer.dense.indexer.k", .axis = AXIS_TP, .dim = DIM_HEAD_DIM},
        {.operator= "layer.dense.indexer.w", .axis = AXIS_TP, .dim = DIM_HIDDEN},
    };
    struct run_case alone = run_case_new(MODELS[0], SEQ, BATCH);
    struct run_outcome *expected = run_case_done(*state, &alone);
    for (int w = 0; w < 2; w++) {
        struct run_case of = run_case_split(MODELS[0], SEQ, BATCH, &WAYS[w]);
        of.parallel.layouts = RULES;
        of.parallel.layout_count = sizeof RULES / sizeof *RULES;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

// Zeros of the indexers of all layers are ready when forward is: there are no rooms for buckets to
// take turns in where updates come with the gradients.
static void updates_as_gradients_come_find_their_places(void **state)
{
    struct run_case alone = run_case_new(MODELS[0], SEQ, BATCH), of = alone;
    alone.unclipped = of.unclipped = true;
    of.parallel.degree[AXIS_DP] = 2;
    of.parallel.micro_batch = BATCH / 2;
    of.parallel.bucket_bytes = 256;
    struct run_outcome *expected = run_case_done(*state, &alone);
    struct run_outcome *found = run_case_done(*state, &of);
    const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
    if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
}

// The kernels of CUDA, on their emulation, in fp32: with one choice for each layer, with one that
// layers share, and with a sink beside it.
static void the_kernels_of_cuda_compute_it_too(void **state)
{
    static const double SINGLE = 2e-5;
    for (int m = 0; m < MODEL_COUNT; m += 2) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_new(MODELS[m], SEQ, BATCH);
        of.backend = "cuda";
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, SINGLE);
        if (difference) fail_msg("%s: %s", MODELS[m], difference);
        struct run_case shares = run_case_split(MODELS[m], SEQ, BATCH, &WAYS[m % WAY_COUNT]);
        shares.steps = 1;
        shares.clip_norm = shares.learning_rate = 0;
        struct run_case alone = shares;
        shares.backend = "cuda";
        struct run_outcome *expected = run_case_done(*state, &alone);
        found = run_case_done(*state, &shares);
        difference = run_outcome_difference(*state, expected, found, SINGLE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &shares), difference);
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_lie_as_their_parameters_do),
        cmocka_unit_test(updates_as_gradients_come_find_their_places),
        cmocka_unit_test(the_kernels_of_cuda_compute_it_too),
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(choosing_all_keys_is_attention_to_all),
        cmocka_unit_test(several_ranks_compute_what_one_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
