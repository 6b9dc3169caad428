#include "tests/support/test.h"

#include "tests/support/run_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Plans in bf16 and fp16, whatever they are made of, against one rank that does it all in double
// precision: the kernels of CUDA, on the host, and those of the CPU between roundings.

#define EXPERTS                                                                 \
    "\"vocab_size\": 40, \"hidden_size\": 16, \"num_hidden_layers\": 2, "       \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 16, \"num_local_experts\": 4, \"num_experts_per_tok\": 2"
static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
static const char MIXTRAL[] = "{\"model_type\": \"mixtral\", " EXPERTS "}";
static const char DEEPSEEK[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_group\": 4, "
    "\"topk_group\": 2, \"n_routed_experts\": 8, \"n_shared_experts\": 1, \"num_experts_per_tok\": "
    "3, "
    "\"moe_intermediate_size\": 4, \"first_k_dense_replace\": 1, "
    "\"num_nextn_predict_layers\": 0}";

enum { SEQ = 8, BATCH = 4 };

struct half_case {
    const char *name, *config;
    int dp, tp, cp, pp, vpp, ep, etp, zero;
    bool sp, accumulates, dropout;
    enum schedule_kind schedule;
    enum cp_kind cp_kind;
    enum recompute recompute;
    enum tp_kind tp_kind;
    int micro_batch;  // 0: 1
};

static const struct half_case CASES[] = {
    {"one rank", GPT2, .dp = 1},
    {"dropout", GPT2, .dp = 2, .dropout = true},
    {"tp", GPT2, .tp = 2},
    {"tp with sp, gpt2", GPT2, .tp = 2, .sp = true},
    {"pp, tied", GPT2, .pp = 2, .schedule = SCHEDULE_1F1B},
    {"zero 1, tied", GPT2, .dp = 4, .zero = 1},
    {"zero 3, tied", GPT2, .dp = 2, .zero = 3},
    {"one rank", LLAMA, .dp = 1},
    {"dp", LLAMA, .dp = 4},
    {"zero 1", LLAMA, .dp = 4, .zero = 1},
    {"zero 2", LLAMA, .dp = 4, .zero = 2},
    {"zero 2 that adds up first", LLAMA, .dp = 2, .zero = 2, .accumulates = true},
    {"zero 3", LLAMA, .dp = 4, .zero = 3},
    {"tp 4", LLAMA, .tp = 4},
    {"tp with sp", LLAMA, .tp = 2, .sp = true, .dp = 2, .zero = 3},
    {"ring", LLAMA, .cp = 4, .cp_kind = CP_RING},
    {"gathered keys", LLAMA, .cp = 2, .cp_kind = CP_ALL_GATHER},
    {"ulysses", LLAMA, .cp = 2, .cp_kind = CP_ULYSSES},
    {"zb-v", LLAMA, .pp = 2, .vpp = 2, .schedule = SCHEDULE_ZB_V},
    {"pp and tp", LLAMA, .pp = 2, .tp = 2, .sp = true, .schedule = SCHEDULE_ZB_H1},
    {"recompute", LLAMA, .dp = 2, .recompute = RECOMPUTE_FULL},
    {"2d", LLAMA, .tp = 4, .tp_kind = TP_2D, .micro_batch = 2},
    {"2d again", LLAMA, .tp = 4, .tp_kind = TP_2D, .micro_batch = 4, .recompute = RECOMPUTE_FULL},
    {"2.5d", LLAMA, .tp = 8, .tp_kind = TP_2_5D, .micro_batch = 4},
    {"3d", LLAMA, .tp = 8, .tp_kind = TP_3D, .micro_batch = 4},
    {"2d, layer norm", GPT2, .tp = 4, .tp_kind = TP_2D, .micro_batch = 2},
    {"2d, layer norm, dp", GPT2, .tp = 4, .tp_kind = TP_2D, .dp = 2, .micro_batch = 2, .zero = 1},
    {"3d, layer norm", GPT2, .tp = 8, .tp_kind = TP_3D, .micro_batch = 4},
    {"2.5d, layer norm", GPT2, .tp = 8, .tp_kind = TP_2_5D, .micro_batch = 4},
    {"experts", MIXTRAL, .dp = 1},
    {"ep", MIXTRAL, .dp = 4, .ep = 4},
    {"ep and tp", MIXTRAL, .dp = 2, .tp = 2, .sp = true, .ep = 2, .zero = 2},
    {"ep and pp", MIXTRAL, .dp = 2, .ep = 2, .pp = 2, .schedule = SCHEDULE_1F1B},
    {"ep and ulysses", MIXTRAL, .cp = 2, .cp_kind = CP_ULYSSES, .dp = 2, .ep = 4, .zero = 3},
    {"latent", DEEPSEEK, .dp = 2, .ep = 2, .zero = 3},
    {"latent, etp", DEEPSEEK, .dp = 2, .tp = 2, .sp = true, .ep = 2, .etp = 2},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static int degree(int wanted)
{
    return wanted ? wanted : 1;
}

static struct run_case case_of(const struct half_case *from)
{
    struct run_case of = run_case_new(from->config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_DP] = degree(from->dp);
    parallel->degree[AXIS_TP] = degree(from->tp);
    parallel->degree[AXIS_CP] = degree(from->cp);
    parallel->degree[AXIS_PP] = degree(from->pp);
    parallel->degree[AXIS_EP] = degree(from->ep);
    parallel->degree[AXIS_ETP] = degree(from->etp);
    parallel->vpp = degree(from->vpp);
    if (from->pp > 1) parallel->schedule = from->schedule;
    parallel->zero = from->zero;
    parallel->accumulates = from->accumulates;
    parallel->sp = from->sp;
    parallel->cp_kind = from->cp_kind;
    parallel->recompute = from->recompute;
    parallel->tp_kind = from->tp_kind;
    parallel->micro_batch = degree(from->micro_batch);
    of.dropout = from->dropout;
    of.backend = "cuda";
    of.steps = 1;
    return of;
}

static bool is_of_experts(const struct half_case *of)
{
    return of->config == MIXTRAL || of->config == DEEPSEEK;
}

// Of the loss, of the norm, and of every gradient (run_outcome_error). bf16 keeps 8 bits, fp16 11,
// and a value passes some twenty roundings on its way.
struct tolerance {
    enum precision precision;
    double loss, gradient;
};
static const struct tolerance TOLERANCES[] = {
    {PRECISION_BF16, 1e-4, 1e-2}, {PRECISION_FP16, 1e-5, 2e-3}, {PRECISION_FP32, 1e-7, 1e-5}};
enum { BF16, FP16, FP32 };

static void check(struct arena *arena, const struct half_case *from,
                  const struct run_outcome *expected, const char *backend,
                  const struct tolerance *tolerance)
{
    struct run_case of = case_of(from);
    of.backend = backend;
    of.precision = tolerance->precision;
    const struct run_outcome *found = run_case_done(arena, &of);
    const char *worst, *fault = run_outcome_rounding(arena, found, of.precision);
    double loss = fabs(found->loss[0] / expected->loss[0] - 1);
    double norm = fabs(found->norm[0] / expected->norm[0] - 1);
    double gradient = run_outcome_error(expected, found, &worst);
    if (!(loss <= tolerance->loss && norm <= tolerance->gradient))
        fail_msg("%s (%s): loss off by %g, norm by %g", from->name, run_case_text(arena, &of), loss,
                 norm);
    if (gradient > tolerance->gradient)
        fail_msg("%s (%s): %s off by %g", from->name, run_case_text(arena, &of), worst, gradient);
    if (!fault && !is_of_experts(from)) fault = run_outcome_traffic(arena, found);
    if (fault) fail_msg("%s (%s): %s", from->name, run_case_text(arena, &of), fault);
    // Weights in 16 bits with their masters, gradients, moments, and the arena up to its last byte
    // that is used, which may stand before an address of its alignment; shards that do not divide
    // a unit are rounded up.
    int64_t planned_bytes = run_outcome_planned_bytes(found);
    bool is_held = llabs(planned_bytes - found->peak_bytes) < 64;
    if (!is_held)
        fail_msg("%s (%s): %lld bytes held, %lld planned", from->name, run_case_text(arena, &of),
                 (long long)found->peak_bytes, (long long)planned_bytes);
}

static const struct run_outcome *expected_of(struct arena *arena, const struct half_case *of)
{
    struct run_case serial = run_case_new(of->config, SEQ, BATCH);
    serial.steps = 1;
    serial.dropout = of->dropout;
    return run_case_done(arena, &serial);
}

// Every so manyth from the first on.
static void check_all(struct arena *arena, const char *backend, const struct tolerance *tolerance,
                      int first, int every)
{
    const struct run_outcome *expected = NULL;
    for (int c = 0; c < CASE_COUNT; c++) {
        bool is_same = c > 0 && CASES[c].config == CASES[c - 1].config &&
                       CASES[c].dropout == CASES[c - 1].dropout;
        if (!is_same) expected = NULL;
        if (c % every != first) continue;
        if (!expected) expected = expected_of(arena, &CASES[c]);
        check(arena, &CASES[c], expected, backend, tolerance);
    }
}

static void every_technique_computes_in_16_bits_what_one_rank_does(void **state)
{
    check_all(*state, "cuda", &TOLERANCES[BF16], 0, 2);
    check_all(*state, "cuda", &TOLERANCES[FP16], 1, 2);
}

static void the_cpu_computes_in_16_bits_too(void **state)
{
    check_all(*state, "cpu-half", &TOLERANCES[BF16], 1, 2);
    check_all(*state, "cpu-half", &TOLERANCES[FP16], 0, 2);
}

static void in_fp32_there_are_a_hundred_times_the_digits(void **state)
{
    check_all(*state, "cuda", &TOLERANCES[FP32], 1, 5);
    check_all(*state, "cpu-half", &TOLERANCES[FP32], 2, 5);
}

static void weights_stay_those_of_the_optimizer_rounded(void **state)
{
    static const enum optimizer OPTIMIZERS[] = {OPTIMIZER_ADAMW, OPTIMIZER_SGD, OPTIMIZER_LAMB,
                                                OPTIMIZER_LARS};
    struct run_case serial = run_case_new(LLAMA, SEQ, BATCH);
    serial.parallel.micro_batch = 1;
    serial.steps = 3;
    for (int zero = 0; zero <= 3; zero++) {
        serial.optimizer = OPTIMIZERS[zero];
        const struct run_outcome *expected = run_case_done(*state, &serial);
        struct run_case of = serial;
        of.parallel.degree[AXIS_DP] = 2;
        of.parallel.zero = zero;
        of.backend = "cuda";
        of.precision = zero % 2 ? PRECISION_FP16 : PRECISION_BF16;
        const struct run_outcome *found = run_case_done(*state, &of);
        const char *fault = run_outcome_rounding(*state, found, of.precision);
        if (fault) fail_msg("%s: %s", run_case_text(*state, &of), fault);
        for (int s = 0; s < of.steps; s++)
            assert_true(fabs(found->loss[s] / expected->loss[s] - 1) < 1e-3);
        // Where it learns, both do.
        bool learns = expected->loss[of.steps - 1] < expected->loss[0] - 0.01;
        if (learns) assert_true(found->loss[of.steps - 1] < found->loss[0]);
    }
}

static struct run_case scaled_case(double loss_scale)
{
    struct run_case of = case_of(&(struct half_case){"scaled", LLAMA, .dp = 2, .zero = 1});
    of.precision = PRECISION_FP16;
    of.loss_scale = loss_scale;
    return of;
}

static void gradients_that_fp16_cannot_hold_are_there_when_scaled(void **state)
{
    const char *worst;
    const struct half_case one = {"one rank", LLAMA, .dp = 1};
    const struct run_outcome *expected = expected_of(*state, &one);
    struct run_case small = scaled_case(0x1p-12), usual = scaled_case(0);
    const struct run_outcome *lost = run_case_done(*state, &small),
                             *found = run_case_done(*state, &usual);
    assert_true(run_outcome_error(expected, lost, &worst) > 1e-2);
    assert_true(run_outcome_error(expected, found, &worst) < TOLERANCES[FP16].gradient);
    assert_true(found->loss_scale[0] > 1);
    assert_true(fabs(found->norm[0] / expected->norm[0] - 1) < TOLERANCES[FP16].gradient);
}

static const struct run_tensor *weight_like(const struct run_outcome *outcome,
                                            const struct run_tensor *tensor)
{
    for (int i = 0; i < outcome->tensor_count; i++) {
        const struct run_tensor *other = &outcome->tensors[i];
        if (strcmp(other->key, tensor->key) == 0) return other;
    }
    return NULL;
}

static int changed_weights(const struct run_outcome *a, const struct run_outcome *b)
{
    int changed = 0;
    for (int i = 0; i < a->tensor_count; i++) {
        const struct run_tensor *tensor = &a->tensors[i], *other = weight_like(b, tensor);
        if (strncmp(tensor->key, "weight ", 7) != 0) continue;
        size_t bytes = sizeof *tensor->values;
        for (int d = 0; d < tensor->rank; d++)
            bytes *= (size_t)tensor->sizes[d];
        assert_non_null(other);
        changed += memcmp(tensor->values, other->values, bytes) != 0;
    }
    return changed;
}

// What has no room is infinite, and from infinities come numbers that are none, which --poison
// would take for its own.
static void a_step_without_room_changes_nothing_and_halves_the_scale(void **state)
{
    struct run_case still = scaled_case(0), large = scaled_case(0x1p24);
    still.learning_rate = 0;
    const struct run_outcome *initial = run_case_done(*state, &still);
    large.poison = false;
    struct run_outcome *found = run_case_done(*state, &large);
    assert_true(!isfinite(found->norm[0]));
    assert_true(fabs(found->loss[0]) < HUGE_VAL);
    assert_true(changed_weights(initial, found) == 0);
    large.steps = RUN_STEP_MAX;
    found = run_case_done(*state, &large);
    int skipped = 0;
    while (!isfinite(found->norm[skipped])) {
        assert_true(found->loss_scale[skipped] == ldexp(0x1p24, -skipped));
        assert_true(++skipped < RUN_STEP_MAX);
    }
    for (int s = skipped; s < RUN_STEP_MAX; s++) {
        assert_true(found->norm[s] < HUGE_VAL);
        assert_true(found->loss_scale[s] == ldexp(0x1p24, -skipped));
    }
    assert_true(changed_weights(initial, found) > 0);
    assert_null(run_outcome_rounding(*state, found, PRECISION_FP16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_technique_computes_in_16_bits_what_one_rank_does),
        cmocka_unit_test(the_cpu_computes_in_16_bits_too),
        cmocka_unit_test(in_fp32_there_are_a_hundred_times_the_digits),
        cmocka_unit_test(weights_stay_those_of_the_optimizer_rounded),
        cmocka_unit_test(gradients_that_fp16_cannot_hold_are_there_when_scaled),
        cmocka_unit_test(a_step_without_room_changes_nothing_and_halves_the_scale),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
