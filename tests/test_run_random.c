#include "tests/test.h"

#include "tests/draw.h"
#include "tests/run_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Random plans over all techniques at once on up to eight ranks, each against one rank that does it
// all, in double precision. MESHWRIGHT_CASES runs more of them.

static const double TOLERANCE = 1e-11;

#define LLAMA_LIKE                                                                       \
    "\"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": 24, "               \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 4"

static const char *const MODELS[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}",
    "{\"model_type\": \"llama\", " LLAMA_LIKE ", \"tie_word_embeddings\": false}",
    "{\"model_type\": \"llama\", " LLAMA_LIKE ", \"attention_bias\": true, \"mlp_bias\": true, "
    "\"tie_word_embeddings\": true}",
    "{\"model_type\": \"gemma2\", " LLAMA_LIKE ", \"sliding_window\": 5, "
    "\"query_pre_attn_scalar\": 3, \"attn_logit_softcapping\": 1.5, "
    "\"final_logit_softcapping\": 2}",
    "{\"model_type\": \"qwen3\", " LLAMA_LIKE "}",
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 37, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"intermediate_size\": 24, "
    "\"hidden_dropout\": 0.2}",
    "{\"model_type\": \"falcon\", \"vocab_size\": 37, \"hidden_size\": 16, \"num_hidden_layers\": "
    "4, \"num_attention_heads\": 4, \"num_kv_heads\": 2, \"new_decoder_architecture\": true}",
    "{\"model_type\": \"bloom\", \"vocab_size\": 37, \"hidden_size\": 16, \"n_layer\": 4, "
    "\"n_head\": 4, \"apply_residual_connection_post_layernorm\": true}",
    "{\"model_type\": \"bert\", \"vocab_size\": 37, \"hidden_size\": 16, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 24, \"max_position_embeddings\": 16}",
    "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 37, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
    "\"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, "
    "\"q_lora_rank\": 5, \"attention_bias\": true, \"n_routed_experts\": null}",
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS, SEQ = 16, BATCH = 16, LAYERS = 4 };
enum { OTHERWISE_CASES = 48, STAGES_MAX = 4 };

struct expectation {
    struct run_outcome *of[MODEL_COUNT][2];  // without and with dropout
};

static struct run_outcome *expected_of(struct arena *arena, struct expectation *known, int model,
                                       bool dropout)
{
    struct run_outcome **at = &known->of[model][dropout];
    if (*at) return *at;
    struct run_case of = run_case_new(MODELS[model], SEQ, BATCH);
    of.dropout = dropout;
    struct err err = {0};
    *at = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal((*at)->error, "");
    return *at;
}

static void draw_degrees(struct draw *draw, struct parallel *parallel)
{
    static const int TP[] = {1, 1, 2, 2, 4}, CP[] = {1, 1, 1, 2, 4}, DP[] = {1, 2, 2, 4};
    static const int PP[] = {1, 1, 2, 3, 4};
    int64_t ranks;
    do {
        parallel->degree[AXIS_TP] = DRAW_ONE(draw, TP);
        parallel->degree[AXIS_CP] = DRAW_ONE(draw, CP);
        parallel->degree[AXIS_DP] = DRAW_ONE(draw, DP);
        parallel->degree[AXIS_PP] = DRAW_ONE(draw, PP);
        ranks = parallel_rank_count(parallel);
    } while (ranks < 2 || ranks > RUN_RANK_MAX);
    parallel->sp = draw_int(draw, 0, 1);
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_KIND_COUNT - 1);
    for (int i = parallel->order_count - 1; i > 0; i--) {
        int other = draw_int(draw, 0, i);
        enum axis kept = parallel->order[i];
        parallel->order[i] = parallel->order[other];
        parallel->order[other] = kept;
    }
}

// Layers of the stages as they fall: some have none of their own but embedding or head.
static void draw_stages(struct draw *draw, struct arena *arena, struct parallel *parallel)
{
    int stages = parallel->degree[AXIS_PP];
    if (stages == 1 || parallel->vpp > 1 || draw_int(draw, 0, 1)) return;
    int *layers = ARENA_NEW(arena, int, stages);
    for (int s = 0; s < stages; s++)
        layers[s] = 1;
    for (int l = stages; l < LAYERS; l++)
        layers[draw_int(draw, 0, stages - 1)]++;
    parallel->stage_layers = layers;
    parallel->stage_layers_count = stages;
}

static void draw_pipeline(struct draw *draw, struct arena *arena, struct parallel *parallel)
{
    if (parallel->degree[AXIS_PP] == 1) return;
    parallel->schedule = (enum schedule_kind)draw_int(draw, 0, SCHEDULE_KIND_COUNT - 1);
    bool has_chunks =
        parallel->schedule == SCHEDULE_INTERLEAVED || parallel->schedule == SCHEDULE_ZB_V;
    if (has_chunks) parallel->vpp = 2;
    if (has_chunks) parallel->degree[AXIS_PP] = 2;
    if (parallel->schedule == SCHEDULE_ZB_AUTO) parallel->in_flight = draw_int(draw, 0, 6);
    if (parallel->schedule == SCHEDULE_ZB_H2) parallel->in_flight = draw_int(draw, 0, 1) * 4;
    draw_stages(draw, arena, parallel);
}

static void draw_memory(struct draw *draw, struct parallel *parallel)
{
    parallel->recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    if (parallel->recompute == RECOMPUTE_SELECTIVE)
        parallel->recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    if (parallel->recompute != RECOMPUTE_NONE) parallel->recompute_layers = draw_int(draw, -1, 2);
    parallel->zero = draw_int(draw, 0, 3);
    parallel->accumulates = parallel->zero >= 2 && draw_int(draw, 0, 1);
    int shards = parallel->degree[AXIS_DP] * parallel->degree[AXIS_CP];
    if (shards % 2 == 0 && shards > 2 && draw_int(draw, 0, 2) == 0)
        parallel->zero_group = shards / 2;
    if (draw_int(draw, 0, 2)) return;
    parallel->offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = (int16_t)draw_int(draw, -1, 2);
}

static struct run_case draw_case(struct draw *draw, struct arena *arena, int *model)
{
    static const int MICRO_BATCH[] = {1, 2, 2, 4};
    *model = draw_int(draw, 0, MODEL_COUNT - 1);
    struct run_case of = run_case_new(MODELS[*model], SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    draw_degrees(draw, parallel);
    draw_pipeline(draw, arena, parallel);
    draw_memory(draw, parallel);
    parallel->micro_batch = DRAW_ONE(draw, MICRO_BATCH);
    parallel->overlap = (unsigned)draw_int(draw, 0, 63);
    if (draw_int(draw, 0, 1)) parallel->passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    parallel->attention = (enum attention)draw_int(draw, 0, ATTENTION_COUNT - 1);
    of.poison = draw_int(draw, 0, 3) > 0;
    of.roam = draw_int(draw, 0, 3) == 0;
    // Kernels of the chain and the fused one draw from the same counters.
    of.dropout = draw_int(draw, 0, 3) == 0;
    return of;
}

// What the rank with most held against what was planned for it.
static const char *memory_difference(struct arena *arena, const struct run_outcome *found)
{
    double planned = (double)run_outcome_planned_bytes(found);
    if (planned < 0 || fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static int case_count(void)
{
    const char *given = getenv("MESHWRIGHT_CASES");
    return given ? atoi(given) : OTHERWISE_CASES;
}

static void random_plans_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("random runs", 2026);
    struct expectation known = {0};
    struct arena scratch = {0};
    int wanted = case_count(), ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = draw_case(&draw, &scratch, &model);
        struct run_outcome *expected = expected_of(*state, &known, model, of.dropout);
        struct err why = {0};
        struct run_outcome *found = run_case_run(&scratch, &of, &why);
        // Choices that do not go together are refused before anything starts.
        if (!found) {
            if (getenv("MESHWRIGHT_SHOW")) print_message("# refused: %s\n", why.text);
            assert_int_equal(why.kind, ERR_USAGE);
            arena_free(&scratch);
            assert_in_range(++refused, 0, 20 * wanted + 100);
            continue;
        }
        ran++;
        const char *difference = run_outcome_difference(&scratch, expected, found, TOLERANCE);
        if (!difference) difference = run_outcome_traffic(&scratch, found);
        if (!difference) difference = memory_difference(&scratch, found);
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, %s, dropout %d poison %d roam %d: %s: %s\n",
                        (unsigned long long)seed.state, expected->program->graph->model_type,
                        of.dropout, of.poison, of.roam, run_case_text(&scratch, &of), difference);
        }
        arena_free(&scratch);
    }
    print_message("# %d plans ran, %d drawn were refused\n", ran, refused);
    arena_free(&scratch);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
