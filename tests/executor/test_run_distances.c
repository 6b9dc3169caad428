#include "tests/support/test.h"

#include "tests/support/run_case.h"
#include "tests/support/whole_model.h"

// Scores that take something from a table of distances: on one rank what plain loops over the whole
// model compute, and on several ranks what one computes, in double precision.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

#define DEBERTA                                                                        \
    "{\"model_type\": \"deberta-v2\", \"vocab_size\": 40, \"hidden_size\": 8, "        \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 8, " \
    "\"max_position_embeddings\": 12, \"type_vocab_size\": 0, \"relative_attention\": true"
static const char *const MODELS[] = {
    DEBERTA ", \"position_buckets\": 4, \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, "
            "\"pos_att_type\": \"p2c|c2p\", \"position_biased_input\": false}",
    DEBERTA ", \"max_relative_positions\": 5, \"pos_att_type\": [\"c2p\"]}",
    DEBERTA ", \"position_buckets\": 6, \"pos_att_type\": [\"p2c\", \"c2p\"]}",
    "{\"model_type\": \"deberta\", \"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": "
    "2, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"max_position_embeddings\": 12, "
    "\"relative_attention\": true, \"pos_att_type\": \"c2p|p2c\"}",
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

static const struct way {
    int dp, tp, cp;
    bool sp;
    int zero;
    enum cp_kind cp_kind;
    enum recompute recompute;
    int pp;
} WAYS[] = {
    {1, 2, 1, false, 0, CP_RING, RECOMPUTE_NONE, 1},
    {1, 4, 1, true, 1, CP_RING, RECOMPUTE_SELECTIVE, 1},
    {2, 1, 1, false, 3, CP_RING, RECOMPUTE_FULL, 1},
    {4, 1, 1, false, 2, CP_RING, RECOMPUTE_SELECTIVE, 1},
    {2, 2, 1, true, 2, CP_RING, RECOMPUTE_NONE, 1},
    {1, 1, 2, false, 0, CP_RING, RECOMPUTE_NONE, 1},
    {1, 1, 4, false, 2, CP_ALL_GATHER, RECOMPUTE_SELECTIVE, 1},
    {2, 1, 2, false, 3, CP_RING, RECOMPUTE_NONE, 1},
    {1, 2, 2, true, 0, CP_ALL_GATHER, RECOMPUTE_SELECTIVE, 1},
    {1, 1, 1, false, 0, CP_RING, RECOMPUTE_NONE, 2},
    {2, 1, 1, false, 3, CP_RING, RECOMPUTE_FULL, 3},
    {1, 2, 1, true, 1, CP_RING, RECOMPUTE_NONE, 4},
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
    parallel->micro_batch = 1;
    return of;
}

static void several_ranks_compute_what_one_does(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(MODELS[m], SEQ, BATCH);
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

// The kernels of CUDA, on their emulation, in fp32.
static void the_kernels_of_cuda_compute_it_too(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_new(MODELS[m], SEQ, BATCH);
        of.backend = "cuda";
        // Adam would make much of what is lost of a gradient that is zero.
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, 2e-5);
        if (difference) fail_msg("%s: %s", MODELS[m], difference);
        arena_reset(*state, mark);
    }
}

// The table is one for all layers, and what is made of it is whole but for tp.
static void what_no_run_can_do_is_refused(void **state)
{
    static const char EXCHANGED[] =
        "--cp-kind ulysses: keys and queries of distances are made for all heads of a rank of tp; "
        "ring and allgather work";
    static const char *const WORDS[] = {
        EXCHANGED,
        "--tp-kind 2d: the model has a table of distances, which no grid splits; only 1d works",
    };
    for (int i = 0; i < 2; i++) {
        struct run_case of = run_case_new(MODELS[0], SEQ, BATCH);
        struct err why = {0};
        of.parallel.degree[i == 0 ? AXIS_CP : AXIS_TP] = i == 1 ? 4 : 2;
        of.parallel.cp_kind = CP_ULYSSES;
        of.parallel.tp_kind = i == 1 ? TP_2D : TP_1D;
        assert_null(run_case_run(*state, &of, &why));
        if (!strstr(why.text, WORDS[i])) fail_msg("%s", why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(several_ranks_compute_what_one_does),
        cmocka_unit_test(the_kernels_of_cuda_compute_it_too),
        cmocka_unit_test(what_no_run_can_do_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
