#include "tests/support/test.h"

#include "tests/support/run_case.h"

#include <string.h>

// In 16 bits, too, the run is the same to the last bit where a choice changes when something is
// done or where it is kept, but not what is rounded; and what is poisoned is found.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char MIXTRAL[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 40, \"hidden_size\": 16, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"intermediate_size\": 16, \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2}";

enum { SEQ = 8, BATCH = 4, BROKEN = 23 };

static struct run_case case_new(const char *config, enum precision precision)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    of.backend = "cuda";
    of.precision = precision;
    of.parallel.micro_batch = 1;
    of.dropout = true;
    return of;
}

static void check(struct arena *arena, const struct run_outcome *expected,
                  const struct run_case *of)
{
    const char *difference = run_outcome_bits(arena, expected, run_case_done(arena, of));
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
}

static void what_is_recomputed_is_the_same(void **state)
{
    const char *const configs[] = {GPT2, MIXTRAL};
    for (int m = 0; m < 2; m++) {
        struct run_case of = case_new(configs[m], m ? PRECISION_FP16 : PRECISION_BF16);
        of.parallel.degree[AXIS_TP] = 2;
        of.parallel.sp = true;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.recompute = RECOMPUTE_FULL;
        check(*state, expected, &of);
        of.parallel.recompute_layers = 1;
        check(*state, expected, &of);
        of.parallel.recompute_layers = -1;
        of.parallel.recompute = RECOMPUTE_SELECTIVE;
        check(*state, expected, &of);
    }
}

static void what_was_on_the_host_is_the_same(void **state)
{
    struct run_case of = case_new(GPT2, PRECISION_BF16);
    of.parallel.degree[AXIS_PP] = 2;
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.parallel.offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        of.parallel.offload.layers[class] = -1;
    check(*state, expected, &of);
}

// Only rooms of ZeRO 2 and 3 round gradients that are not rounded elsewhere.
static void sharded_state_is_the_same(void **state)
{
    struct run_case of = case_new(MIXTRAL, PRECISION_BF16);
    of.parallel.degree[AXIS_DP] = 2;
    of.clip_norm = 1e9;  // norms are sums over shards
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.parallel.zero = 1;
    check(*state, expected, &of);
    of.parallel.zero = 2;
    of.parallel.accumulates = true;
    check(*state, expected, &of);
}

// In 8 bits what one product has cast for another is what that would have cast, which is what it
// does of recomputed values that nobody has read before.
static void who_casts_changes_nothing(void **state)
{
    static const char LLAMA[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 48, \"hidden_size\": 32, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 8, \"intermediate_size\": 64}";
    struct run_case of = case_new(LLAMA, PRECISION_FP8);
    of.seq_len = 2 * SEQ;
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.parallel.recompute = RECOMPUTE_FULL;
    check(*state, expected, &of);
    of.parallel.recompute = RECOMPUTE_NONE;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.schedule = SCHEDULE_ZB_H1;
    expected = run_case_done(*state, &of);
    of.parallel.offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        of.parallel.offload.layers[class] = -1;
    of.parallel.schedule = SCHEDULE_1F1B;
    check(*state, expected, &of);
}

static void when_and_where_changes_nothing(void **state)
{
    struct run_case of = case_new(MIXTRAL, PRECISION_FP16);
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.schedule = SCHEDULE_GPIPE;
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.parallel.schedule = SCHEDULE_ZB_H1;
    check(*state, expected, &of);
    of.roam = true;
    check(*state, expected, &of);
    // What runs as one is rounded once less; with poison nothing does but GEMMs that share an
    // input.
    of.poison = false;
    of.operators_apart = true;
    expected = run_case_done(*state, &of);
    of.roam = false;
    check(*state, expected, &of);
}

static void poison_is_no_number_in_16_bits_either(void **state)
{
    static const enum precision PRECISIONS[] = {PRECISION_BF16, PRECISION_FP16};
    for (int i = 0; i < 8; i++) {
        struct run_case of = case_new(GPT2, PRECISIONS[i % 2]);
        of.steps = 1;
        of.broken = i % 4 < 2 ? BREAK_READ : BREAK_OUTSIDE;
        of.broken_number = i * BROKEN;
        struct err err = {0};
        struct run_outcome *found = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        assert_false(found->done);
        bool is_said = strstr(found->error, "memory that holds nothing") ||
                       strstr(found->error, "something wrote outside the arena");
        if (!is_said) fail_msg("value %d: %s", of.broken_number, found->error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recomputed_is_the_same),
        cmocka_unit_test(what_was_on_the_host_is_the_same),
        cmocka_unit_test(sharded_state_is_the_same),
        cmocka_unit_test(who_casts_changes_nothing),
        cmocka_unit_test(when_and_where_changes_nothing),
        cmocka_unit_test(poison_is_no_number_in_16_bits_either),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
