#include "tests/support/test.h"

#include "tests/support/run_case.h"

// Rings whose ranks have an early and a late half of each sequence compute what one rank does, in
// double precision, whatever else is split; and where a model or a plan wants slices in order, they
// are.

static const double TOLERANCE = 1e-12;

#define SIZES                                                            \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"head_dim\": 4, \"intermediate_size\": 8, \"tie_word_embeddings\": false"
static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 8, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 24, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char LLAMA[] = "{\"model_type\": \"llama\", " SIZES "}";
static const char MISTRAL[] = "{\"model_type\": \"mistral\", " SIZES ", \"sliding_window\": 5}";
// Layers with a window of five tokens and without one in turn.
static const char GEMMA2[] =
    "{\"model_type\": \"gemma2\", " SIZES ", \"sliding_window\": 5, \"query_pre_attn_scalar\": 4}";
// Sinks, windows and experts.
static const char GPT_OSS[] =
    "{\"model_type\": \"gpt_oss\", " SIZES ", \"sliding_window\": 5, \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2}";
static const char BLOOM[] =
    "{\"model_type\": \"bloom\", \"vocab_size\": 40, \"hidden_size\": 8, \"n_layer\": 2, "
    "\"n_head\": 4}";
// Latent attention, experts, and a module that predicts one token more.
static const char DEEPSEEK[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_group\": 4, "
    "\"topk_group\": 2, \"n_routed_experts\": 8, \"n_shared_experts\": 1, "
    "\"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, \"first_k_dense_replace\": 1, "
    "\"num_nextn_predict_layers\": 1}";

enum { SEQ = 24, BATCH = 8 };

struct way {
    int cp, tp, dp, pp, ep, zero;  // 0 = 1
    bool sp;
    enum recompute recompute;
    enum schedule_kind schedule;
};

static const struct way WAYS[] = {
    {.cp = 2},
    {.cp = 3},
    {.cp = 4},
    {.cp = 2, .tp = 2, .sp = true, .zero = 1},
    {.cp = 2, .dp = 2, .zero = 3, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .pp = 2, .schedule = SCHEDULE_1F1B, .recompute = RECOMPUTE_SELECTIVE},
    {.cp = 3, .tp = 2, .dp = 2, .zero = 2},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static int degree(int wanted)
{
    return wanted ? wanted : 1;
}

static struct run_case case_of(const char *config, const struct way *way)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    of.dropout = config == GPT2;
    if (!way) return of;
    parallel->degree[AXIS_CP] = way->cp;
    parallel->degree[AXIS_TP] = degree(way->tp);
    parallel->degree[AXIS_DP] = degree(way->dp);
    parallel->degree[AXIS_PP] = degree(way->pp);
    parallel->degree[AXIS_EP] = degree(way->ep);
    parallel->zero = way->zero;
    parallel->sp = way->sp;
    parallel->recompute = way->recompute;
    if (way->pp) parallel->schedule = way->schedule;
    return of;
}

static void check(struct arena *arena, const struct run_case *of, int64_t half,
                  const struct run_outcome *expected)
{
    struct run_outcome *found = run_case_done(arena, of);
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference && !strstr(of->config, "experts"))
        difference = run_outcome_traffic(arena, found);
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
    if (found->program->order.half != half)
        fail_msg("%s: half slices of %d, expected %d", run_case_text(arena, of),
                 (int)found->program->order.half, (int)half);
}

static void halves_compute_what_one_rank_does(void **state)
{
    static const char *const MODELS[] = {GPT2, LLAMA, GEMMA2, GPT_OSS, BLOOM, DEEPSEEK};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = case_of(MODELS[m], NULL);
        struct run_outcome *expected = run_case_done(*state, &alone);
        // All ways of the second model, every second one of the others in turn.
        for (int w = m == 1 ? 0 : (int)m / 2 % 2; w < WAY_COUNT; w += m == 1 ? 1 : 2) {
            struct run_case of = case_of(MODELS[m], &WAYS[w]);
            check(*state, &of, SEQ / (2 * WAYS[w].cp), expected);
        }
        arena_reset(*state, mark);
    }
}

// A sequence that two halves a rank do not divide, windows alone, keys that are gathered or whose
// heads change hands, a capacity, a back end without halves.
static void what_wants_slices_in_order_has_them(void **state)
{
    struct run_case odd = case_of(LLAMA, NULL);
    odd.seq_len = 21;
    struct run_outcome *expected = run_case_done(*state, &odd);
    odd.parallel.degree[AXIS_CP] = 3;
    check(*state, &odd, 0, expected);
    struct run_case windows = case_of(MISTRAL, NULL);
    expected = run_case_done(*state, &windows);
    windows.parallel.degree[AXIS_CP] = 3;
    check(*state, &windows, 0, expected);
    struct run_case of = case_of(LLAMA, NULL);
    expected = run_case_done(*state, &of);
    of.parallel.degree[AXIS_CP] = 2;
    of.parallel.cp_kind = CP_ALL_GATHER;
    check(*state, &of, 0, expected);
    of.parallel.cp_kind = CP_ULYSSES;
    check(*state, &of, 0, expected);
    of.parallel.cp_kind = CP_RING;
    of.without_joins = 1u << JOIN_HALVES;
    check(*state, &of, 0, expected);
    struct run_case rows = case_of(DEEPSEEK, NULL);
    rows.capacity_factor = 1;
    expected = run_case_done(*state, &rows);
    rows.parallel.degree[AXIS_CP] = 2;
    check(*state, &rows, 0, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_compute_what_one_rank_does),
        cmocka_unit_test(what_wants_slices_in_order_has_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
