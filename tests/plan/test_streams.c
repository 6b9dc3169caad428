#include "tests/support/test.h"

#include "tests/support/run_case.h"

#include <stdio.h>
#include <stdlib.h>

// Streams that run beside each other, whatever they do first, give the same bits as one after
// another: whole runs of the engine on the emulated CUDA back end, whose streams run in orders that
// a number draws among those that CUDA allows (tests/gpu/emulate_streams.h).

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
static const char MIXTRAL[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 37, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 4, \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"tie_word_embeddings\": false}";

struct way {
    const char *name, *model;
    int dp, tp, cp, pp, ep, vpp, zero;
    bool sp, offloads, recomputes;
    enum cp_kind cp_kind;
    enum schedule_kind schedule;
};

static const struct way WAYS[] = {
    {.name = "one rank", .model = GPT2},
    {.name = "offload", .model = GPT2, .offloads = true},
    {.name = "offload and recompute", .model = LLAMA, .offloads = true, .recomputes = true},
    {.name = "dp, buckets", .model = GPT2, .dp = 2},
    {.name = "zero 1", .model = LLAMA, .dp = 2, .zero = 1},
    {.name = "zero 2", .model = LLAMA, .dp = 2, .zero = 2},
    {.name = "zero 3", .model = GPT2, .dp = 2, .zero = 3},
    {.name = "tp", .model = GPT2, .tp = 2},
    {.name = "tp and sp", .model = LLAMA, .tp = 2, .sp = true},
    {.name = "pp", .model = LLAMA, .pp = 2, .schedule = SCHEDULE_1F1B},
    {.name = "pp, tied", .model = GPT2, .pp = 2, .schedule = SCHEDULE_GPIPE},
    {.name = "interleaved", .model = LLAMA, .pp = 2, .vpp = 2, .schedule = SCHEDULE_INTERLEAVED},
    {.name = "zero bubble", .model = LLAMA, .pp = 2, .zero = 2, .schedule = SCHEDULE_ZB_H1},
    {.name = "cp ring", .model = LLAMA, .cp = 4, .cp_kind = CP_RING},
    {.name = "cp all-gather", .model = LLAMA, .cp = 2, .cp_kind = CP_ALL_GATHER},
    {.name = "cp ulysses", .model = LLAMA, .cp = 2, .cp_kind = CP_ULYSSES},
    {.name = "experts", .model = MIXTRAL, .dp = 2, .ep = 2},
    {.name = "all", .model = LLAMA, .dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static int at_least_one(int degree)
{
    return degree > 0 ? degree : 1;
}

static struct run_case case_of(const struct way *way)
{
    struct run_case of = run_case_new(way->model, 8, way->pp > 0 ? 4 : 2);
    struct parallel *parallel = &of.parallel;
    of.backend = "cuda";
    of.dropout = true;
    of.poison = false;
    of.steps = 2;
    of.parallel.micro_batch = 1;
    parallel->degree[AXIS_DP] = at_least_one(way->dp);
    parallel->degree[AXIS_TP] = at_least_one(way->tp);
    parallel->degree[AXIS_CP] = at_least_one(way->cp);
    parallel->degree[AXIS_PP] = at_least_one(way->pp);
    parallel->degree[AXIS_EP] = at_least_one(way->ep);
    parallel->vpp = at_least_one(way->vpp);
    parallel->zero = way->zero;
    parallel->sp = way->sp;
    parallel->cp_kind = way->cp_kind;
    parallel->schedule = way->schedule;
    if (way->recomputes) parallel->recompute = RECOMPUTE_FULL;
    if (!way->offloads) return of;
    parallel->offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = 2;
    return of;
}

static struct run_outcome *run(struct arena *arena, const struct run_case *of, int order)
{
    char number[16];
    struct err err = {0};
    snprintf(number, sizeof number, "%d", order);
    setenv("MESHWRIGHT_EMULATED_ORDER", number, 1);
    struct run_outcome *outcome = run_case_run(arena, of, &err);
    if (!outcome) fail_msg("%s: %s", run_case_text(arena, of), err.text);
    if (!outcome->done)
        fail_msg("%s, order %d: %s", run_case_text(arena, of), order, outcome->error);
    return outcome;
}

// MESHWRIGHT_CASES orders of each, or one: other ones for other plans.
static int orders(void)
{
    const char *text = getenv("MESHWRIGHT_CASES");
    return text ? atoi(text) : 1;
}

// Against launches one by one; dropout draws others in every step, which the recording must not
// keep. Memory that kernels need grows in the first step, so that nothing has to be recorded twice.
static void what_is_recorded_and_replayed_is_the_same(void **state)
{
    static const char *const NAMES[] = {"one rank", "tp",       "zero 3",
                                        "cp ring",  "pp, tied", "offload and recompute"};
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        bool is_one = false;
        for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++)
            is_one = is_one || strcmp(NAMES[n], WAYS[i].name) == 0;
        if (!is_one) continue;
        struct arena arena = {0};
        struct run_case of = case_of(&WAYS[i]);
        of.steps = 4;
        of.launches_each = true;
        const struct run_outcome *expected = run(&arena, &of, 0);
        of.launches_each = false;
        const struct run_outcome *found = run(&arena, &of, 1);
        const char *difference = run_outcome_bits(&arena, expected, found);
        if (difference) fail_msg("%s: %s", WAYS[i].name, difference);
        assert_int_equal(expected->replay_count, 0);
        assert_true(found->replay_count > 0);
        // As many in the third step, which records, as in the fourth.
        assert_int_equal(found->replay_count % 2, 0);
        arena_free(&arena);
    }
}

static void no_order_of_streams_changes_a_bit(void **state)
{
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        struct arena arena = {0};
        struct run_case of = case_of(&WAYS[i]);
        const struct run_outcome *expected = run(&arena, &of, 0);
        for (int order = i + 1; order <= i + orders(); order++) {
            const char *difference = run_outcome_bits(&arena, expected, run(&arena, &of, order));
            if (difference) fail_msg("%s, order %d: %s", WAYS[i].name, order, difference);
        }
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recorded_and_replayed_is_the_same),
        cmocka_unit_test(no_order_of_streams_changes_a_bit),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
