#include "tests/support/run_case.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Plans whose ranks exchange over the transport `nccl`, on its emulation and with CUDA's kernels on
// the host, against one rank in double precision; and that the host's memory carries the data of
// devices as well. Sums differ in their order, so not bit for bit.

#define EXPERTS                                                                 \
    "\"vocab_size\": 40, \"hidden_size\": 16, \"num_hidden_layers\": 2, "       \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 16, \"num_local_experts\": 4, \"num_experts_per_tok\": 2"
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
static const char SIXES[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 36, \"hidden_size\": 36, \"intermediate_size\": "
    "36, \"num_hidden_layers\": 1, \"num_attention_heads\": 6, \"num_key_value_heads\": 6, "
    "\"head_dim\": 6, \"tie_word_embeddings\": false}";
static const char MIXTRAL[] = "{\"model_type\": \"mixtral\", " EXPERTS "}";

struct nccl_case {
    const char *name, *config;
    enum precision precision;
    int dp, tp, cp, pp, ep, zero;
    bool sp;
    enum cp_kind cp_kind;
    enum tp_kind tp_kind;
    int tp_relay, micro_batch;
};

static const struct nccl_case CASES[] = {
    {"tp with sp and zero 3", LLAMA, PRECISION_FP32, .tp = 2, .sp = true, .dp = 2, .zero = 3},
    {"pp", LLAMA, PRECISION_FP32, .pp = 2, .dp = 2, .zero = 1},
    {"ring", LLAMA, PRECISION_FP32, .cp = 3, .cp_kind = CP_RING},
    {"ulysses", LLAMA, PRECISION_BF16, .cp = 2, .cp_kind = CP_ULYSSES},
    {"zero 2", LLAMA, PRECISION_BF16, .dp = 3, .zero = 2},
    {"pp and tp", LLAMA, PRECISION_FP16, .pp = 2, .tp = 2, .sp = true},
    {"ep", MIXTRAL, PRECISION_BF16, .dp = 2, .ep = 2},
    {"SUMMA of 2 x 3 in pieces", SIXES, PRECISION_FP32, .tp = 6, .tp_kind = TP_2D_SUMMA,
     .tp_relay = 3, .micro_batch = 2},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES, SEQ = 12, BATCH = 12 };

static int degree(int wanted)
{
    return wanted ? wanted : 1;
}

static struct run_case case_of(const struct nccl_case *from)
{
    struct run_case of = run_case_new(from->config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_DP] = degree(from->dp);
    parallel->degree[AXIS_TP] = degree(from->tp);
    parallel->degree[AXIS_CP] = degree(from->cp);
    parallel->degree[AXIS_PP] = degree(from->pp);
    parallel->degree[AXIS_EP] = degree(from->ep);
    parallel->zero = from->zero;
    parallel->sp = from->sp;
    parallel->cp_kind = from->cp_kind;
    parallel->tp_kind = from->tp_kind;
    parallel->tp_relay = from->tp_relay;
    if (from->micro_batch) parallel->micro_batch = from->micro_batch;
    of.backend = "cuda";
    of.precision = from->precision;
    of.steps = 1;
    return of;
}

static const struct run_outcome *run(struct arena *arena, const struct run_case *of)
{
    struct err err = {0};
    const struct run_outcome *outcome = run_case_run(arena, of, &err);
    if (!outcome) fail_msg("%s: %s", run_case_text(arena, of), err.text);
    if (!outcome->done) fail_msg("%s: %s", run_case_text(arena, of), outcome->error);
    return outcome;
}

// As large as in tests/executor/test_run_half.c, where what they bound is explained.
static double tolerance_of(enum precision precision)
{
    return precision == PRECISION_BF16 ? 1e-2 : precision == PRECISION_FP16 ? 2e-3 : 1e-5;
}

static bool has_pieces(const struct program *program)
{
    bool found = false;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b]->buffer_count; i++)
            found |= program->blocks[b]->buffers[i].pieces > 0;
    return found;
}

static void check(const struct nccl_case *from, bool over_nccl)
{
    struct arena arena = {0};
    struct run_case of = case_of(from), whole = run_case_new(from->config, SEQ, BATCH);
    whole.steps = 1;
    of.over_nccl = over_nccl;
    const char *worst = "";
    const struct run_outcome *expected = run(&arena, &whole), *found = run(&arena, &of);
    assert_int_equal(has_pieces(found->program), from->tp_relay > 0);
    double error = run_outcome_error(expected, found, &worst);
    double loss = fabs(found->loss[0] / expected->loss[0] - 1);
    double tolerance = tolerance_of(from->precision);
    if (!(error <= tolerance && loss <= tolerance / 10))
        fail_msg("%s (%s): gradients off by %g (%s), loss by %g", from->name,
                 run_case_text(&arena, &of), error, worst, loss);
    arena_free(&arena);
}

static void plans_over_nccl_train_as_one_rank_does(void **state)
{
    (void)state;
    for (int i = 0; i < CASE_COUNT; i++)
        check(&CASES[i], true);
}

static void plans_over_the_hosts_memory_train_as_one_rank_does(void **state)
{
    (void)state;
    for (int i = 0; i < CASE_COUNT; i += 3)
        check(&CASES[i], false);
}

// Work on streams is done late, in an order that is drawn: what NCCL moves has to be waited for.
static void streams_that_are_late_change_nothing(void **state)
{
    (void)state;
    setenv("MESHWRIGHT_EMULATED_ORDER", "5", 1);
    check(&CASES[0], true);
    setenv("MESHWRIGHT_EMULATED_ORDER", "6", 1);
    check(&CASES[5], true);
    unsetenv("MESHWRIGHT_EMULATED_ORDER");
}

// With one rank there is nobody to exchange with.
static void one_rank_has_the_same_bits_over_nccl(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct nccl_case alone = {"one", LLAMA, PRECISION_BF16, .dp = 1};
    struct run_case of = case_of(&alone);
    const struct run_outcome *expected = run(&arena, &of);
    of.over_nccl = true;
    const struct run_outcome *found = run(&arena, &of);
    const char *difference = run_outcome_bits(&arena, expected, found);
    if (difference) fail_msg("%s", difference);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_over_nccl_train_as_one_rank_does),
        cmocka_unit_test(plans_over_the_hosts_memory_train_as_one_rank_does),
        cmocka_unit_test(streams_that_are_late_change_nothing),
        cmocka_unit_test(one_rank_has_the_same_bits_over_nccl),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
