#include "tests/support/test.h"

#include "tests/support/run_case.h"

// Where a choice changes when something is done, or where it is kept, but not the order of sums,
// the run is the same to the last bit.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char GEMMA2[] =
    "{\"model_type\": \"gemma2\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false, \"sliding_window\": 5, "
    "\"attn_logit_softcapping\": 1.5, "
    "\"final_logit_softcapping\": 2}";
static const char *const MODELS[] = {GPT2, GEMMA2};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS, SEQ = 16, BATCH = 16 };

// Embedding and head add to one gradient, in an order that depends on where they are.
static bool is_tied(int model)
{
    return model == 0;
}

// In single precision, where sums in another order would show at once.
static struct run_case case_new(int model)
{
    struct run_case of = run_case_new(MODELS[model], SEQ, BATCH);
    of.backend = "cpu";
    of.dropout = true;
    of.steps = 3;
    return of;
}

static void check(struct arena *arena, const struct run_outcome *expected,
                  const struct run_case *of)
{
    const char *difference = run_outcome_bits(arena, expected, run_case_done(arena, of));
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
}

static void schedules_differ_in_no_bit(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct run_case of = case_new(m);
        of.parallel.degree[AXIS_PP] = 2;
        of.parallel.degree[AXIS_DP] = 2;
        of.parallel.schedule = SCHEDULE_GPIPE;
        of.clip_norm = 1e9;  // norms are sums over stages
        const struct run_outcome *expected = run_case_done(*state, &of);
        for (int schedule = 0; schedule < SCHEDULE_KIND_COUNT; schedule++) {
            bool has_chunks = schedule == SCHEDULE_INTERLEAVED || schedule == SCHEDULE_ZB_V;
            if (schedule == SCHEDULE_ZB_V && is_tied(m)) continue;
            of.parallel.schedule = (enum schedule_kind)schedule;
            of.parallel.vpp = has_chunks ? 2 : 1;
            check(*state, expected, &of);
        }
        of.parallel.vpp = 1;
        of.parallel.schedule = SCHEDULE_1F1B;
        int uneven[] = {1, 3};
        of.parallel.stage_layers = uneven;
        of.parallel.stage_layers_count = 2;
        check(*state, expected, &of);
    }
}

static void what_is_recomputed_is_the_same(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        for (int tp = 1; tp <= 2; tp++) {
            struct run_case of = case_new(m);
            of.parallel.degree[AXIS_TP] = tp;
            of.parallel.sp = tp > 1;
            const struct run_outcome *expected = run_case_done(*state, &of);
            of.parallel.recompute = RECOMPUTE_FULL;
            check(*state, expected, &of);
            of.parallel.recompute_layers = 1;
            check(*state, expected, &of);
            of.parallel.recompute_layers = -1;
            of.parallel.recompute = RECOMPUTE_SELECTIVE;
            for (int class = 0; class < OP_CLASS_COUNT; class ++) {
                of.parallel.recompute_classes = class == 0 ? 0 : 1u << class;
                check(*state, expected, &of);
            }
        }
    }
}

static void what_was_on_the_host_is_the_same(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct run_case of = case_new(m);
        of.parallel.degree[AXIS_PP] = 2;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.offload.activations = TIER_HOST;
        for (int layers = 1; layers >= -1; layers -= 2) {
            for (int class = 0; class < OP_CLASS_COUNT; class ++)
                of.parallel.offload.layers[class] = (int16_t)layers;
            check(*state, expected, &of);
        }
    }
}

// With one micro-batch a rank, or gradients that add up before they are scattered, every gradient
// is a sum over the ranks in their order, whoever keeps it.
static void sharded_state_is_the_same(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        for (int micro_batch = 2; micro_batch <= 4; micro_batch += 2) {
            struct run_case of = case_new(m);
            of.parallel.degree[AXIS_DP] = 4;
            of.parallel.micro_batch = micro_batch;
            of.clip_norm = 1e9;  // norms are sums over shards
            const struct run_outcome *expected = run_case_done(*state, &of);
            of.parallel.accumulates = micro_batch == 2;
            // A shard takes what embedding and head add one after the other.
            int most = is_tied(m) && !of.parallel.accumulates ? 1 : 3;
            for (int zero = 1; zero <= most; zero++) {
                of.parallel.zero = zero;
                check(*state, expected, &of);
            }
        }
    }
}

static void where_and_how_memory_lies_changes_nothing(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct run_case of = case_new(m);
        of.parallel.degree[AXIS_PP] = 2;
        of.parallel.degree[AXIS_DP] = 2;
        of.parallel.zero = 2;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.poison = false;
        check(*state, expected, &of);
        of.poison = true;
        of.roam = true;
        check(*state, expected, &of);
        of.parallel.overlap = 0;
        check(*state, expected, &of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_differ_in_no_bit),
        cmocka_unit_test(what_is_recomputed_is_the_same),
        cmocka_unit_test(what_was_on_the_host_is_the_same),
        cmocka_unit_test(sharded_state_is_the_same),
        cmocka_unit_test(where_and_how_memory_lies_changes_nothing),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
