#include "tests/support/script_exchanges.h"
#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/run_case.h"
#include "tests/support/tiny_models.h"
#include "tests/support/whole_model.h"

// Mixtures of experts, wherever the experts lie and however the rows get there, against one rank
// that does it all, in double precision.

static const double TOLERANCE = 1e-11;

#define EXPERTS                                                                 \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, "        \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"intermediate_size\": 8"
static const char MIXTRAL[] = "{\"model_type\": \"mixtral\", " EXPERTS
                              ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}";
static const char QWEN2_MOE[] =
    "{\"model_type\": \"qwen2_moe\", " EXPERTS
    ", \"num_experts\": 8, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "
    "\"shared_expert_intermediate_size\": 4, \"norm_topk_prob\": true}";
#define LATENT_EXPERTS                                                                      \
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": 8, "            \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "      \
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "              \
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, "                 \
    "\"n_group\": 4, \"topk_group\": 2, \"n_routed_experts\": 8, \"n_shared_experts\": 1, " \
    "\"num_experts_per_tok\": 3, \"moe_intermediate_size\": 4, "                            \
    "\"first_k_dense_replace\": 1"
static const char DEEPSEEK[] = LATENT_EXPERTS ", \"num_nextn_predict_layers\": 0}";
static const char DEEPSEEK_MTP[] = LATENT_EXPERTS ", \"num_nextn_predict_layers\": 1}";

enum { SEQ = 8, BATCH = 8 };

struct expert_case {
    int tp, cp, dp, ep, etp, pp;  // 0 = 1
    bool sp;
    int zero;
    enum cp_kind cp_kind;
    enum recompute recompute;
    enum schedule_kind schedule;
    int micro_batch;  // 0 = 2, or 1 where that is too much
};

// Where the experts lie: on dp, on tp, on both, on cp; whole or split inside; of all sizes.
static const struct expert_case CASES[] = {
    {.dp = 4, .ep = 4},
    {.dp = 4, .zero = 2, .ep = 2, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .sp = true, .dp = 2, .ep = 4},
    {.tp = 2, .sp = true, .dp = 4, .zero = 3, .ep = 4, .recompute = RECOMPUTE_SELECTIVE},
    {.tp = 2, .dp = 2, .ep = 4, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .dp = 2, .ep = 2, .etp = 2, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .dp = 4, .zero = 3, .ep = 2, .etp = 2},
    {.tp = 4, .sp = true, .dp = 2, .zero = 1, .ep = 4, .etp = 2},
    {.tp = 4, .dp = 2, .ep = 4, .etp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.tp = 4, .sp = true, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 4, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .cp = 2, .dp = 2, .zero = 3, .ep = 8},
    {.tp = 2, .cp = 2, .dp = 2, .ep = 2, .etp = 2},
    {.cp = 2, .cp_kind = CP_ULYSSES, .dp = 2, .zero = 2, .ep = 2},
    {.tp = 2, .sp = true, .cp = 2, .cp_kind = CP_ULYSSES, .dp = 2, .zero = 3, .ep = 4},
    {.cp = 4, .cp_kind = CP_ULYSSES, .dp = 2, .ep = 4},
    {.dp = 4, .ep = 2, .etp = 2},
    {.tp = 2, .sp = true, .dp = 2},
    {.tp = 2, .dp = 2, .zero = 2},
    {.tp = 2, .dp = 2, .etp = 2},
    {.tp = 4, .sp = true, .cp = 2, .zero = 2, .ep = 2},
    {.dp = 2, .zero = 1, .ep = 2, .pp = 2, .schedule = SCHEDULE_1F1B},
    {.dp = 2, .ep = 2, .pp = 2, .schedule = SCHEDULE_ZB_H1},
    {.tp = 2,
     .sp = true,
     .dp = 2,
     .ep = 2,
     .etp = 2,
     .pp = 2,
     .schedule = SCHEDULE_GPIPE,
     .recompute = RECOMPUTE_FULL},
    {.dp = 2, .pp = 2, .schedule = SCHEDULE_ZB_V, .micro_batch = 4},  // B of an embedding alone
    {.recompute = RECOMPUTE_FULL},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static int degree(int wanted)
{
    return wanted ? wanted : 1;
}

static struct run_case case_of(const char *config, const struct expert_case *from)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_TP] = degree(from->tp);
    parallel->degree[AXIS_CP] = degree(from->cp);
    parallel->degree[AXIS_DP] = degree(from->dp);
    parallel->degree[AXIS_EP] = degree(from->ep);
    parallel->degree[AXIS_ETP] = degree(from->etp);
    parallel->degree[AXIS_PP] = degree(from->pp);
    if (from->pp > 1) parallel->schedule = from->schedule;
    parallel->vpp = parallel->schedule == SCHEDULE_ZB_V ? 2 : 1;
    parallel->sp = from->sp;
    parallel->zero = from->zero;
    parallel->cp_kind = from->cp_kind;
    parallel->recompute = from->recompute;
    if (degree(from->dp) * parallel->micro_batch > BATCH / degree(from->pp))
        parallel->micro_batch = 1;
    if (from->micro_batch) parallel->micro_batch = from->micro_batch;
    return of;
}

static struct run_outcome *serial(struct arena *arena, const char *config)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    return outcome;
}

static void check(struct arena *arena, const struct run_case *of,
                  const struct run_outcome *expected)
{
    struct err err = {0};
    struct run_outcome *found = run_case_run(arena, of, &err);
    if (!found) fail_msg("%s: %s", run_case_text(arena, of), err.text);
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
}

// Every expert over every token, in one piece.
static void one_rank_computes_what_dense_experts_do(void **state)
{
    static const char *const CONFIGS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK, DEEPSEEK_MTP};
    for (size_t m = 0; m < sizeof CONFIGS / sizeof *CONFIGS; m++) {
        struct run_case of = run_case_new(CONFIGS[m], SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct err err = {0};
        struct run_outcome *found = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(found->error, "");
        const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", CONFIGS[m], difference);
    }
}

static void experts_compute_the_same_wherever_they_lie(void **state)
{
    static const char *const MODELS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK_MTP};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct run_outcome *expected = serial(*state, MODELS[m]);
        // In turn; which tokens are dropped asks the others (below).
        for (int c = (int)m; c < CASE_COUNT; c += 3) {
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            check(*state, &of, expected);
        }
    }
}

// Biases, sinks, gates and shared experts of every family that has any.
static void every_family_of_experts_runs(void **state)
{
    static const struct expert_case FAMILY_CASES[] = {
        {.dp = 2, .ep = 2, .recompute = RECOMPUTE_SELECTIVE},
        {.tp = 2, .sp = true, .dp = 2, .zero = 3, .ep = 2},
        {.tp = 2, .ep = 2},
    };
    for (int m = 0; TINY_MODELS[m]; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct graph *graph = tiny_graph(*state, TINY_MODELS[m], &(struct import_options){0});
        struct run_outcome *expected =
            graph->expert_count > 0 ? serial(*state, TINY_MODELS[m]) : NULL;
        for (size_t c = 0; expected && c < sizeof FAMILY_CASES / sizeof *FAMILY_CASES; c++) {
            struct run_case of = case_of(TINY_MODELS[m], &FAMILY_CASES[c]);
            check(*state, &of, expected);
        }
        arena_reset(*state, mark);
    }
}

static void draw_degrees(struct draw *draw, struct parallel *parallel)
{
    static const int DEGREES[] = {1, 1, 2, 2, 4}, EXPERTS_ON[] = {1, 2, 2, 4, 8};
    static const int PARTS[] = {1, 1, 2};
    parallel->degree[AXIS_DP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_CP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_PP] = DRAW_ONE(draw, PARTS);
    parallel->degree[AXIS_EP] = DRAW_ONE(draw, EXPERTS_ON);
    parallel->degree[AXIS_ETP] = DRAW_ONE(draw, PARTS);
    parallel->sp = parallel->degree[AXIS_TP] > 1 && draw_int(draw, 0, 1);
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    for (int i = parallel->order_count - 1; i > 0 && draw_int(draw, 0, 1); i--) {
        int other = draw_int(draw, 0, i);
        enum axis kept = parallel->order[i];
        parallel->order[i] = parallel->order[other];
        parallel->order[other] = kept;
    }
}

static void draw_memory(struct draw *draw, struct parallel *parallel)
{
    parallel->zero = draw_int(draw, 0, 3);
    parallel->accumulates = parallel->zero >= 2 && draw_int(draw, 0, 1);
    int shards = parallel->degree[AXIS_DP] * parallel->degree[AXIS_CP];
    if (shards > 2 && draw_int(draw, 0, 2) == 0) parallel->zero_group = shards / 2;
    parallel->recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    if (parallel->recompute == RECOMPUTE_SELECTIVE)
        parallel->recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    if (parallel->recompute != RECOMPUTE_NONE) parallel->recompute_layers = draw_int(draw, -1, 1);
    if (draw_int(draw, 0, 2)) return;
    parallel->offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = (int16_t)draw_int(draw, -1, 2);
}

static struct run_case case_drawn(struct draw *draw, const char *config)
{
    static const int MICRO_BATCHES[] = {1, 2, 4};
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_GPIPE,       SCHEDULE_1F1B,
                                                   SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1,
                                                   SCHEDULE_ZB_H2,       SCHEDULE_ZB_V};
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    draw_degrees(draw, parallel);
    if (parallel->degree[AXIS_PP] > 1) parallel->schedule = DRAW_ONE(draw, SCHEDULES);
    bool has_chunks =
        parallel->schedule == SCHEDULE_INTERLEAVED || parallel->schedule == SCHEDULE_ZB_V;
    parallel->vpp = has_chunks ? 2 : 1;
    draw_memory(draw, parallel);
    parallel->micro_batch = DRAW_ONE(draw, MICRO_BATCHES);
    parallel->overlap =
        (unsigned)draw_int(draw, 0, OVERLAP_END - 1) & ~(unsigned)(OVERLAP_TP | OVERLAP_EP);
    if (draw_int(draw, 0, 1)) parallel->passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    parallel->attention = (enum attention)draw_int(draw, 0, ATTENTION_COUNT - 1);
    of.roam = draw_int(draw, 0, 3) == 0;
    return of;
}

// Room for 1, 2, 3 and all of a sequence's 8 tokens, of which 2 choose an expert in the mean.
static const double FACTORS[] = {0.5, 1, 1.25, 4};
enum { FACTOR_COUNT = sizeof FACTORS / sizeof *FACTORS };

static struct run_outcome *serial_with_room(struct arena *arena, const char *config, double factor,
                                            int micro_batch)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    of.capacity_factor = factor;
    of.parallel.micro_batch = micro_batch;
    struct err err = {0};
    struct run_outcome *found = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(found->error, "");
    return found;
}

static void any_plan_computes_what_one_rank_does(void **state)
{
    static const char *const CONFIGS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK, DEEPSEEK_MTP};
    enum { CONFIG_COUNT = sizeof CONFIGS / sizeof *CONFIGS };
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 8;
    struct draw draw = draw_start("plans of experts", 5);
    struct run_outcome *expected[CONFIG_COUNT][FACTOR_COUNT] = {{NULL}};
    for (int n = 0; n < cases;) {
        int m = draw_int(&draw, 0, CONFIG_COUNT - 1), f = draw_int(&draw, 0, FACTOR_COUNT - 1);
        struct run_case of = case_drawn(&draw, CONFIGS[m]);
        of.capacity_factor = f == FACTOR_COUNT - 1 ? 0 : FACTORS[f];  // room for all: dropless
        if (parallel_rank_count(&of.parallel) > RUN_RANK_MAX) continue;
        if (!expected[m][f])
            expected[m][f] = serial_with_room(*state, CONFIGS[m], of.capacity_factor, 2);
        struct arena_mark mark = arena_mark(*state);
        struct err err = {0};
        struct run_outcome *found = run_case_run(*state, &of, &err);
        const char *difference =
            found ? run_outcome_difference(*state, expected[m][f], found, TOLERANCE) : NULL;
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        if (!found) assert_int_equal(err.kind, ERR_USAGE);
        arena_reset(*state, mark);
        n += found != NULL;
    }
}

static void check_bits(struct arena *arena, const struct run_case *of,
                       const struct run_outcome *expected)
{
    struct err err = {0};
    struct run_outcome *found = run_case_run(arena, of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(found->error, "");
    for (int i = 0; i < expected->tensor_count; i++) {
        const struct run_tensor *tensor = &expected->tensors[i], *other = NULL;
        size_t bytes = sizeof(double);
        for (int j = 0; j < found->tensor_count; j++) {
            if (strcmp(found->tensors[j].key, tensor->key) == 0) other = &found->tensors[j];
        }
        assert_non_null(other);
        for (int d = 0; d < tensor->rank; d++)
            bytes *= (size_t)tensor->sizes[d];
        if (memcmp(tensor->values, other->values, bytes) != 0)
            fail_msg("%s: other bits in %s", run_case_text(arena, of), tensor->key);
    }
}

// Rows stand in one order whenever they are made, so that nothing but a change of who adds what
// changes a bit.
static void what_is_recomputed_moved_or_put_off_has_the_same_bits(void **state)
{
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_GPIPE, SCHEDULE_ZB_H1, SCHEDULE_ZB_H2};
    struct run_case of = case_of(MIXTRAL, &(struct expert_case){.dp = 2, .ep = 2, .pp = 2});
    of.backend = "cpu";
    of.clip_norm = 0;
    of.parallel.schedule = SCHEDULE_1F1B;
    struct err err = {0};
    struct run_outcome *expected = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(expected->error, "");
    for (size_t i = 0; i < sizeof SCHEDULES / sizeof *SCHEDULES; i++) {
        of.parallel.schedule = SCHEDULES[i];
        check_bits(*state, &of, expected);
    }
    of.parallel.recompute = RECOMPUTE_FULL;
    check_bits(*state, &of, expected);
    of.parallel.recompute = RECOMPUTE_SELECTIVE;
    of.parallel.recompute_classes = 1u << OP_CLASS_EXPERTS | 1u << OP_CLASS_ACTIVATION;
    check_bits(*state, &of, expected);
    of.parallel.recompute = RECOMPUTE_NONE;
    of.parallel.overlap = 0;
    of.roam = true;
    check_bits(*state, &of, expected);
    of.parallel.zero = 1;
    check_bits(*state, &of, expected);
}

static void rows_without_room_end_the_run_with_their_number(void **state)
{
    struct run_case of = case_of(MIXTRAL, &(struct expert_case){.dp = 4, .ep = 4});
    of.expert_imbalance = 1;
    struct err err = {0};
    struct run_outcome *found = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_false(found->done);
    int rank, step, layer;
    long long rows, room;
    const char *text = strstr(found->error, "the tokens chose");
    assert_non_null(text);
    assert_int_equal(sscanf(text,
                            "the tokens chose %lld rows of this rank's experts in layer %d, and "
                            "there is room for %lld",
                            &rows, &layer, &room),
                     3);
    assert_true(rows > room);
    assert_int_equal(room, 2 * BATCH / 4 * SEQ);  // top_k of the tokens, a quarter of the experts
    assert_in_range(layer, 1, 2);
    assert_int_equal(sscanf(strstr(found->error, ": rank") + 2, "rank %d, step %d", &rank, &step),
                     2);
    assert_in_range(rank, 0, 3);
    assert_int_equal(step, 1);
}

static void one_rank_drops_what_dense_experts_with_a_capacity_do(void **state)
{
    static const char *const CONFIGS[] = {MIXTRAL, QWEN2_MOE, DEEPSEEK_MTP};
    for (size_t m = 0; m < sizeof CONFIGS / sizeof *CONFIGS; m++) {
        for (int f = 0; f < FACTOR_COUNT; f++) {
            struct run_case of = run_case_new(CONFIGS[m], SEQ, BATCH);
            of.steps = 1;
            of.clip_norm = of.learning_rate = 0;
            of.capacity_factor = FACTORS[f];
            struct err err = {0};
            struct run_outcome *found = run_case_run(*state, &of, &err);
            assert_string_equal(err.text, "");
            assert_string_equal(found->error, "");
            const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
            if (difference) fail_msg("%s, factor %g: %s", CONFIGS[m], FACTORS[f], difference);
        }
    }
}

// Which are dropped does not depend on where tokens and experts lie, nor on the micro-batch.
static void the_same_tokens_are_dropped_in_every_plan(void **state)
{
    static const char *const CONFIGS[] = {MIXTRAL, DEEPSEEK_MTP};
    static const int MICRO_BATCHES[] = {1, 4, BATCH};
    for (size_t m = 0; m < sizeof CONFIGS / sizeof *CONFIGS; m++) {
        for (int f = 0; f < FACTOR_COUNT; f++) {
            struct arena_mark mark = arena_mark(*state);
            struct run_outcome *expected = serial_with_room(*state, CONFIGS[m], FACTORS[f], 2);
            int micro_batch = MICRO_BATCHES[f % 3];
            struct run_outcome *found =
                serial_with_room(*state, CONFIGS[m], FACTORS[f], micro_batch);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("micro-batch %d: %s", micro_batch, difference);
            // Every case once.
            for (int c = 2 * f + (int)m; c < CASE_COUNT; c += 2 * FACTOR_COUNT) {
                struct run_case of = case_of(CONFIGS[m], &CASES[c]);
                of.capacity_factor = FACTORS[f];
                check(*state, &of, expected);
            }
            arena_reset(*state, mark);
        }
    }
}

// Tokens past the room are really gone: the losses are others, and with room for all they are not.
static void room_for_all_drops_nothing(void **state)
{
    struct run_outcome *dropless = serial(*state, MIXTRAL);
    struct run_outcome *all = serial_with_room(*state, MIXTRAL, 4, 2);
    struct run_outcome *few = serial_with_room(*state, MIXTRAL, 0.5, 2);
    assert_null(run_outcome_difference(*state, dropless, all, 0));
    assert_non_null(run_outcome_difference(*state, dropless, few, 1e-6));
}

// Where every expert is full the exchanges move what is planned for them, byte for byte.
static void full_experts_move_the_planned_bytes(void **state)
{
    // Eight experts, all chosen by every token, of which two in a sequence have room.
    static const char ALL[] = "{\"model_type\": \"mixtral\", " EXPERTS
                              ", \"num_local_experts\": 8, \"num_experts_per_tok\": 8}";
    struct run_case of = case_of(ALL, &(struct expert_case){.dp = 4, .ep = 4});
    of.capacity_factor = 0.25;
    struct err err = {0};
    struct run_outcome *found = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(found->error, "");
    double planned = 0, moved = 0;
    for (int t = 0; t < found->scripts[0]->task_count; t++) {
        struct script_exchange moves[SCRIPT_EXCHANGE_MAX];
        int count = script_exchanges(found->scripts[0], t, moves);
        for (int i = 0; i < count; i++) {
            if (moves[i].collective != COLLECTIVE_ALL_TO_ALL) continue;
            planned += 4 * (double)moves[i].bytes * found->compute_bytes / 4;
        }
    }
    for (int k = 0; k < found->kind_count; k++) {
        const struct run_kind *kind = &found->kinds[k];
        if (kind->group == RUN_COLLECTIVE && kind->index == COLLECTIVE_ALL_TO_ALL)
            moved += kind->bytes;
    }
    assert_true(planned > 0);
    assert_true(moved == planned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_dense_experts_do),
        cmocka_unit_test(experts_compute_the_same_wherever_they_lie),
        cmocka_unit_test(every_family_of_experts_runs),
        cmocka_unit_test(any_plan_computes_what_one_rank_does),
        cmocka_unit_test(what_is_recomputed_moved_or_put_off_has_the_same_bits),
        cmocka_unit_test(rows_without_room_end_the_run_with_their_number),
        cmocka_unit_test(one_rank_drops_what_dense_experts_with_a_capacity_do),
        cmocka_unit_test(the_same_tokens_are_dropped_in_every_plan),
        cmocka_unit_test(room_for_all_drops_nothing),
        cmocka_unit_test(full_experts_move_the_planned_bytes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
