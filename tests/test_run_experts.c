#include "tests/test.h"

#include "tests/run_case.h"
#include "tests/whole_model.h"

// Mixtures of experts, wherever the experts lie and however the rows get there, against one rank
// that does it all, in double precision.

static const double TOLERANCE = 1e-11;

#define EXPERTS                                                                 \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, "        \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 8"
static const char MIXTRAL[] = "{\"model_type\": \"mixtral\", " EXPERTS
                              ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}";
static const char QWEN2_MOE[] =
    "{\"model_type\": \"qwen2_moe\", " EXPERTS
    ", \"num_experts\": 8, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "
    "\"shared_expert_intermediate_size\": 4, \"norm_topk_prob\": true}";
#define LATENT_EXPERTS                                                                 \
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": 8, "       \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "         \
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, "            \
    "\"n_group\": 4, \"topk_group\": 2, \"n_routed_experts\": 8, "                     \
    "\"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "                       \
    "\"first_k_dense_replace\": 1"
static const char DEEPSEEK[] = LATENT_EXPERTS ", \"num_nextn_predict_layers\": 0}";
static const char DEEPSEEK_MTP[] = LATENT_EXPERTS ", \"num_nextn_predict_layers\": 1}";

enum { SEQ = 8, BATCH = 8 };

struct expert_case {
    int tp, cp, dp, ep, etp, pp;  // 0 = 1
    bool sp;
    int zero;
    enum cp_kind cp_kind;
    enum recompute recompute;
    enum schedule_kind schedule;
};

// Where the experts lie: on dp, on tp, on both, on cp; whole or split inside; of all sizes.
static const struct expert_case CASES[] = {
    {.dp = 4, .ep = 4},
    {.dp = 4, .zero = 2, .ep = 2, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .sp = true, .dp = 2, .ep = 4},
    {.tp = 2, .sp = true, .dp = 4, .zero = 3, .ep = 4, .recompute = RECOMPUTE_SELECTIVE},
    {.tp = 2, .dp = 2, .ep = 4, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .dp = 2, .ep = 2, .etp = 2, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .dp = 4, .zero = 3, .ep = 2, .etp = 2},
    {.tp = 4, .sp = true, .dp = 2, .zero = 1, .ep = 4, .etp = 2},
    {.tp = 4, .dp = 2, .ep = 4, .etp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.tp = 4, .sp = true, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 4, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .cp = 2, .dp = 2, .zero = 3, .ep = 8},
    {.tp = 2, .cp = 2, .dp = 2, .ep = 2, .etp = 2},
    {.cp = 2, .cp_kind = CP_ULYSSES, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .cp = 2, .cp_kind = CP_ULYSSES, .dp = 2, .zero = 3, .ep = 4},
    {.cp = 4, .cp_kind = CP_ULYSSES, .dp = 2, .ep = 4},
    {.dp = 4, .ep = 2, .etp = 2},
    {.tp = 2, .sp = true, .dp = 2},
    {.tp = 2, .dp = 2, .zero = 2},
    {.tp = 2, .dp = 2, .etp = 2},
    {.tp = 4, .sp = true, .cp = 2, .zero = 2, .ep = 2},
    {.dp = 2, .zero = 1, .ep = 2, .pp = 2, .schedule = SCHEDULE_1F1B},
    {.dp = 2, .ep = 2, .pp = 2, .schedule = SCHEDULE_ZB_H1},
    {.tp = 2,
     .sp = true,
     .dp = 2,
     .ep = 2,
     .etp = 2,
     .pp = 2,
     .schedule = SCHEDULE_GPIPE,
     .recompute = RECOMPUTE_FULL},
    {.recompute = RECOMPUTE_FULL},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static int degree(int wanted)
{
    return wanted ? wanted : 1;
}

static struct run_case case_of(const char *config, const struct expert_case *from)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_TP] = degree(from->tp);
    parallel->degree[AXIS_CP] = degree(from->cp);
    parallel->degree[AXIS_DP] = degree(from->dp);
    parallel->degree[AXIS_EP] = degree(from->ep);
    parallel->degree[AXIS_ETP] = degree(from->etp);
    parallel->degree[AXIS_PP] = degree(from->pp);
    if (from->pp > 1) parallel->schedule = from->schedule;
    parallel->sp = from->sp;
    parallel->zero = from->zero;
    parallel->cp_kind = from->cp_kind;
    parallel->recompute = from->recompute;
    if (degree(from->dp) * parallel->micro_batch > BATCH / degree(from->pp))
        parallel->micro_batch = 1;
    return of;
}

static struct run_outcome *serial(struct arena *arena, const char *config)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    return outcome;
}

static void check(struct arena *arena, const struct run_case *of,
                  const struct run_outcome *expected)
{
    struct err err = {0};
    struct run_outcome *found = run_case_run(arena, of, &err);
    if (!found) fail_msg("%s: %s", run_case_text(arena, of), err.text);
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
}

// Every expert over every token, in one piece.
static void one_rank_computes_what_dense_experts_do(void **state)
{
    static const char *const CONFIGS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK, DEEPSEEK_MTP};
    for (size_t m = 0; m < sizeof CONFIGS / sizeof *CONFIGS; m++) {
        struct run_case of = run_case_new(CONFIGS[m], SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct err err = {0};
        struct run_outcome *found = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(found->error, "");
        const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", CONFIGS[m], difference);
    }
}

static void experts_compute_the_same_wherever_they_lie(void **state)
{
    static const char *const MODELS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK, DEEPSEEK_MTP};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct run_outcome *expected = serial(*state, MODELS[m]);
        for (int c = 0; c < CASE_COUNT; c++) {
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            check(*state, &of, expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_dense_experts_do),
        cmocka_unit_test(experts_compute_the_same_wherever_they_lie),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
