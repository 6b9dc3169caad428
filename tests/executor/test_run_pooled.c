#include "tests/support/test.h"

#include "tests/support/run_way.h"
#include "tests/support/whole_model.h"

#include <math.h>

// Attention to near tokens and to entries that far ones are pooled to, states that are mixed by
// matrices whose rows and columns sum up to one, and experts that a table of tokens says: on one
// rank what plain loops over the whole model compute, gradients of all parameters among it, and on
// several ranks what one computes, in double precision.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

static const char MODEL[] =
    "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"moe_intermediate_size\": 4, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
    "\"head_dim\": 6, \"qk_rope_head_dim\": 2, \"q_lora_rank\": 6, \"o_groups\": 4, "
    "\"o_lora_rank\": 3, \"num_experts_per_tok\": 2, \"n_routed_experts\": 4, "
    "\"index_n_heads\": 3, \"index_head_dim\": 4, \"index_topk\": 2, \"sliding_window\": 3, "
    "\"hc_mult\": 2, \"hc_sinkhorn_iters\": 3, \"hc_eps\": 0.01, \"swiglu_limit\": 0.05, "
    "\"layer_types\": [\"sliding_attention\", \"compressed_sparse_attention\", "
    "\"heavily_compressed_attention\", \"compressed_sparse_attention\"], "
    "\"compress_rate_csa\": 2, \"compress_rate_hca\": 3, \"num_hash_layers\": 2}";

static void one_rank_computes_what_plain_loops_do(void **state)
{
    struct run_case of = run_case_new(MODEL, SEQ, BATCH);
    of.steps = 1;
    of.clip_norm = of.learning_rate = 0;
    struct run_outcome *found = run_case_done(*state, &of);
    const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
    if (difference) fail_msg("%s", difference);
}

// Ways to share a model between ranks.
static const struct run_way WAYS[] = {
    {1, 2, 1, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE},
    {1, 2, 1, 1, 1, true, 1, CP_RING, RECOMPUTE_SELECTIVE},
    {2, 1, 1, 1, 2, false, 3, CP_RING, RECOMPUTE_NONE},
    {1, 1, 1, 2, 1, false, 0, CP_RING, RECOMPUTE_FULL},
    {1, 1, 1, 4, 1, false, 0, CP_RING, RECOMPUTE_NONE},
    {1, 1, 2, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE},
    {1, 1, 2, 1, 1, false, 2, CP_ALL_GATHER, RECOMPUTE_FULL},
    {1, 1, 2, 1, 1, false, 1, CP_ULYSSES, RECOMPUTE_NONE},
    {1, 2, 2, 1, 1, true, 1, CP_RING, RECOMPUTE_NONE},
    {2, 2, 1, 1, 1, true, 2, CP_RING, RECOMPUTE_SELECTIVE},
    {2, 1, 2, 1, 1, false, 3, CP_RING, RECOMPUTE_NONE},
    {1, 4, 1, 1, 1, true, 1, CP_RING, RECOMPUTE_NONE},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static void several_ranks_compute_what_one_does(void **state)
{
    struct run_case alone = run_case_new(MODEL, SEQ, BATCH);
    struct run_outcome *expected = run_case_done(*state, &alone);
    for (int w = 0; w < WAY_COUNT; w++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_split(MODEL, SEQ, BATCH, &WAYS[w]);
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(several_ranks_compute_what_one_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
