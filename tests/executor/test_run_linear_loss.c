#include "tests/support/test.h"

#include "tests/support/run_case.h"

// Losses whose scores are made in parts (models/op_linear_loss.h): ranks compute what one does with
// scores that are whole, over ways to split, parts of unequal widths and more parts than columns,
// and move what was priced, task by task. On CPUs in double precision, and on the emulated device.

enum { SEQ = 8, BATCH = 8 };

#define SIZES                                                              \
    "\"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": 24, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2"
static const char *const MODELS[] = {
    "{\"model_type\": \"llama\", " SIZES "}",
    // The matrix is turned, and the embedding's; scores have a factor.
    "{\"model_type\": \"cohere\", " SIZES ", \"logit_scale\": 0.25}",
    "{\"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 2, "
    "\"num_experts_per_tok\": 1, \"tie_word_embeddings\": true}",
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

struct loss_case {
    int chunks, tp, cp, dp, pp, zero;
    bool sp;
    enum recompute recompute;
    enum schedule_kind schedule;
};

static const struct loss_case CASES[] = {
    {2, 1, 1, 1, 1, 0, false, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {5, 2, 1, 1, 1, 0, true, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {3, 4, 1, 1, 1, 0, false, RECOMPUTE_FULL, SCHEDULE_1F1B},
    {7, 2, 2, 1, 1, 0, false, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {4, 1, 1, 4, 1, 3, false, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {100, 2, 1, 1, 2, 0, true, RECOMPUTE_SELECTIVE, SCHEDULE_ZB_H1},
    {3, 2, 1, 2, 1, 2, true, RECOMPUTE_FULL, SCHEDULE_GPIPE},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static struct run_case case_of(const char *config, const struct loss_case *split)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->loss_chunks = split->chunks;
    parallel->degree[AXIS_TP] = split->tp;
    parallel->degree[AXIS_CP] = split->cp;
    parallel->degree[AXIS_DP] = split->dp;
    parallel->degree[AXIS_PP] = split->pp;
    parallel->zero = split->zero;
    parallel->sp = split->sp;
    parallel->recompute = split->recompute;
    parallel->schedule = split->schedule;
    parallel->micro_batch = split->dp > 2 ? 1 : 2;
    of.poison = true;
    return of;
}

static void check(struct arena *arena, const struct run_case *of,
                  const struct run_outcome *expected, double tolerance)
{
    struct err why = {0};
    struct run_outcome *found = run_case_run(arena, of, &why);
    if (!found) fail_msg("%s: %s", run_case_text(arena, of), why.text);
    const char *difference = run_outcome_difference(arena, expected, found, tolerance);
    if (!difference) difference = run_outcome_traffic(arena, found);
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
    assert_true(found->peak_bytes <= run_outcome_planned_bytes(found));
}

static void ranks_compute_what_one_does_with_whole_scores(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(MODELS[m], SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int c = m; c < CASE_COUNT; c += 2) {
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            check(*state, &of, expected, 1e-12);
        }
        arena_reset(*state, mark);
    }
}

static void the_device_computes_what_it_does_with_whole_scores(void **state)
{
    for (int c = 0; c < 2; c++) {
        struct run_case alone = run_case_new(MODELS[c], SEQ, BATCH);
        struct run_case of = case_of(MODELS[c], &CASES[c]);
        alone.backend = of.backend = "cuda";
        check(*state, &of, run_case_done(*state, &alone), 2e-5);
    }
}

// Nothing as large as the vocabulary is in the arena.
static void scores_are_never_whole(void **state)
{
    static const char WIDE[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": 8, "
        "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}";
    struct run_case alone = run_case_new(WIDE, SEQ, BATCH), of = case_of(WIDE, &CASES[0]);
    struct run_outcome *whole = run_case_done(*state, &alone), *parts = run_case_done(*state, &of);
    int64_t scores = (int64_t)2 * SEQ * 1000 * (int64_t)sizeof(double);
    assert_true(whole->scripts[0]->arena_bytes >= scores);
    assert_true(parts->scripts[0]->arena_bytes < scores / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_one_does_with_whole_scores),
        cmocka_unit_test(the_device_computes_what_it_does_with_whole_scores),
        cmocka_unit_test(scores_are_never_whole),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
