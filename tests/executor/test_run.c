#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/run_case.h"

#include <stdlib.h>

// Whatever the plan, the run is the same: every technique against one rank that does it all, in
// double precision.

static const double TOLERANCE = 1e-11;

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";

enum { SEQ = 16, BATCH = 16 };

struct technique_case {
    const char *name;
    int dp, tp, cp, pp, vpp, zero;
    bool sp;
    enum schedule_kind schedule;
    enum cp_kind cp_kind;
    enum recompute recompute;
    int micro_batch;  // 0 = 2
    int batches[4];   // micro-batches of each replica, where they differ
};

static const struct technique_case CASES[] = {
    {.name = "accumulation", .dp = 1, .micro_batch = 4},
    {.name = "dp", .dp = 4},
    {.name = "dp zero 1", .dp = 4, .zero = 1},
    {.name = "dp zero 2", .dp = 4, .zero = 2},
    {.name = "dp zero 3", .dp = 4, .zero = 3},
    {.name = "dp 3 does not divide the shards", .dp = 2, .zero = 3},
    {.name = "tp", .tp = 2},
    {.name = "tp 4", .tp = 4},
    {.name = "tp with sp", .tp = 2, .sp = true},
    {.name = "tp with sp and zero 3", .tp = 2, .sp = true, .dp = 2, .zero = 3},
    {.name = "gpipe", .pp = 2, .schedule = SCHEDULE_GPIPE},
    {.name = "1f1b", .pp = 4, .schedule = SCHEDULE_1F1B},
    {.name = "zb-h1", .pp = 2, .schedule = SCHEDULE_ZB_H1},
    {.name = "zb-h2", .pp = 2, .schedule = SCHEDULE_ZB_H2},
    {.name = "zb-v", .pp = 2, .vpp = 2, .schedule = SCHEDULE_ZB_V},
    {.name = "interleaved", .pp = 2, .vpp = 2, .schedule = SCHEDULE_INTERLEAVED},
    {.name = "uneven stages", .pp = 3, .schedule = SCHEDULE_1F1B},
    {.name = "cp ring", .cp = 4, .cp_kind = CP_RING},
    {.name = "cp all-gather", .cp = 2, .cp_kind = CP_ALL_GATHER},
    {.name = "cp ulysses", .cp = 2, .cp_kind = CP_ULYSSES},
    {.name = "recompute selective", .dp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.name = "recompute full", .dp = 2, .recompute = RECOMPUTE_FULL},
    {.name = "tp, pp and dp", .dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1},
    {.name = "cp, dp zero 2", .dp = 2, .cp = 2, .zero = 2},
    {.name = "uneven batches", .dp = 4, .batches = {4, 1, 1, 2}},
    {.name = "uneven batches, zero 1", .dp = 3, .batches = {1, 5, 2}, .zero = 1},
    {.name = "uneven batches, 1f1b and tp",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .batches = {7, 1},
     .schedule = SCHEDULE_1F1B,
     .sp = true},
    {.name = "uneven batches, gpipe", .dp = 2, .pp = 2, .batches = {3, 5}, .zero = 1},
    {.name = "uneven batches, zb-h1",
     .dp = 2,
     .pp = 2,
     .batches = {2, 6},
     .schedule = SCHEDULE_ZB_H1},
    {.name = "uneven batches, cp and recompute",
     .dp = 2,
     .cp = 2,
     .batches = {11, 5},
     .micro_batch = 1,
     .recompute = RECOMPUTE_FULL},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static struct run_case case_of(const char *config, const struct technique_case *from)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    if (from->dp) parallel->degree[AXIS_DP] = from->dp;
    if (from->tp) parallel->degree[AXIS_TP] = from->tp;
    if (from->cp) parallel->degree[AXIS_CP] = from->cp;
    if (from->pp) parallel->degree[AXIS_PP] = from->pp;
    if (from->vpp) parallel->vpp = from->vpp;
    if (from->pp > 1) parallel->schedule = from->schedule;
    if (from->micro_batch) parallel->micro_batch = from->micro_batch;
    parallel->zero = from->zero;
    parallel->sp = from->sp;
    parallel->cp_kind = from->cp_kind;
    parallel->recompute = from->recompute;
    if (from->batches[0]) {
        parallel->replica_count = from->dp;
        parallel->replica_micro_batches = from->batches;
    }
    return of;
}

static struct run_outcome *serial(struct arena *arena, const struct run_case *like)
{
    struct run_case of = run_case_new(like->config, like->seq_len, like->global_batch);
    of.optimizer = like->optimizer;
    of.dropout = like->dropout;
    of.parallel.attention = like->parallel.attention;
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    // What nobody shares is not sent, and not counted either.
    const char *traffic = run_outcome_traffic(arena, outcome);
    if (traffic) fail_msg("one rank (%s): %s", run_case_text(arena, &of), traffic);
    return outcome;
}

static void check(struct arena *arena, const struct run_case *of, const char *name,
                  const struct run_outcome *expected)
{
    struct err err = {0};
    struct run_outcome *found = run_case_run(arena, of, &err);
    if (!found) fail_msg("%s (%s): %s", name, run_case_text(arena, of), err.text);
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (difference) fail_msg("%s (%s): %s", name, run_case_text(arena, of), difference);
}

static void one_rank_learns(void **state)
{
    struct run_case of = run_case_new(GPT2, SEQ, BATCH);
    of.steps = RUN_STEP_MAX;
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    assert_true(outcome->loss[RUN_STEP_MAX - 1] < outcome->loss[0]);
}

// GPT-2 with dropout, so that the same draws are seen from every plan. Llama in every second one,
// and in all where MESHWRIGHT_CASES wants more.
static void every_technique_computes_what_one_rank_does(void **state)
{
    static const char *const MODELS[] = {GPT2, LLAMA};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case like = run_case_new(MODELS[m], SEQ, BATCH);
        like.dropout = MODELS[m] == GPT2;
        struct run_outcome *expected = serial(*state, &like);
        int step = m > 0 && !getenv("MESHWRIGHT_CASES") ? 2 : 1;
        for (int c = 0; c < CASE_COUNT; c += step) {
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            of.dropout = like.dropout;
            check(*state, &of, CASES[c].name, expected);
        }
        arena_reset(*state, mark);
    }
}

// What is dropped hangs on the operator's name alone: the fused one drops what the chain does.
static void attention_written_out_drops_the_same(void **state)
{
    struct run_case like = run_case_new(GPT2, SEQ, BATCH);
    like.dropout = true;
    const struct run_outcome *fused = serial(*state, &like);
    like.parallel.attention = ATTENTION_UNFUSED;
    check(*state, &like, "unfused", fused);
}

static void every_optimizer_is_right_when_sharded(void **state)
{
    for (int optimizer = 0; optimizer < OPTIMIZER_COUNT; optimizer++) {
        struct run_case of = run_case_new(LLAMA, SEQ, BATCH);
        of.optimizer = (enum optimizer)optimizer;
        struct run_outcome *expected = serial(*state, &of);
        of.parallel.degree[AXIS_DP] = 2;
        of.parallel.degree[AXIS_TP] = 2;
        for (int zero = 0; zero <= 3; zero++) {
            of.parallel.zero = zero;
            check(*state, &of, optimizer_name((enum optimizer)optimizer), expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_learns),
        cmocka_unit_test(every_technique_computes_what_one_rank_does),
        cmocka_unit_test(attention_written_out_drops_the_same),
        cmocka_unit_test(every_optimizer_is_right_when_sharded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
