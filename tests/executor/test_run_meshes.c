#include "tests/support/test.h"

#include "plan/boundary.h"
#include "tests/support/layout_rules_draw.h"
#include "tests/support/run_draw.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdlib.h>

// Plans whose stages have meshes of their own, on up to eight ranks, each against one rank that
// does it all, in double precision: losses, weights, gradients, what ranks exchanged and what they
// held. MESHWRIGHT_CASES runs more of them.

static const double TOLERANCE = 1e-12;

enum { OTHERWISE_CASES = 6 };

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference) difference = run_outcome_traffic(arena, found);
    if (difference) return difference;
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static int divisor(struct draw *draw, int of)
{
    int less = draw_int(draw, 1, of);
    while (of % less != 0)
        less--;
    return less;
}

// Groups of ZeRO, some for parameters and gradients apart.
static void add_shards(struct draw *draw, struct parallel *parallel)
{
    int cp = parallel->degree[AXIS_CP];
    bool has_dp = parallel->degree[AXIS_DP] > 1;
    parallel->zero_group = parallel->zero > 0 && has_dp ? cp * draw_int(draw, 0, 2) : 0;
    int states = parallel->zero_group > 0 ? parallel->zero_group : cp * parallel->degree[AXIS_DP];
    bool is_apart = parallel->zero > 1 && draw_int(draw, 0, 1);
    parallel->zero_gradients = is_apart ? cp * divisor(draw, states / cp) : 0;
    if (is_apart && parallel->zero == 3) parallel->zero_parameters = cp;
}

// Degrees of the draw that leave no room for stages and tp are others; the rest stays as drawn.
static void add_meshes(struct arena *arena, struct draw *draw, struct run_case *of)
{
    static const int DEGREES[][3] = {{2, 2, 1}, {2, 2, 2}, {4, 2, 1}, {2, 3, 1}, {2, 4, 1}};
    struct parallel *parallel = &of->parallel;
    const int *degrees = DEGREES[draw_int(draw, 0, 4)];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_TP] = degrees[0];
    parallel->degree[AXIS_PP] = degrees[1];
    parallel->degree[AXIS_DP] = degrees[2];
    if (draw_int(draw, 0, 3) == 0 && degrees[0] * degrees[1] * degrees[2] <= 4) {
        parallel->degree[AXIS_CP] = 2;
        parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    }
    parallel->stage_layers_count = 0;
    parallel->stage_layers = NULL;
    if (draw_int(draw, 0, 3) == 0) parallel->tp_kind = (enum tp_kind)draw_int(draw, TP_2D, TP_3D);
    int *tps = ARENA_NEW(arena, int, degrees[1]);
    for (int s = 0; s < degrees[1]; s++)
        tps[s] = divisor(draw, degrees[0]);
    tps[draw_int(draw, 0, degrees[1] - 1)] = degrees[0];
    parallel->stage_tp = tps;
    parallel->stage_tp_count = degrees[1];
    parallel->micro_batch = degrees[0] * draw_int(draw, 1, 2);
    if (parallel->tp_kind != TP_1D) parallel->sp = false;
    add_shards(draw, parallel);
}

// Layouts of single operators, which are of tp in each stage.
static void add_rules(struct arena *arena, struct draw *draw, int model, struct run_case *of)
{
    const struct import_options options = {.flash = of->parallel.attention == ATTENTION_FLASH};
    struct graph *graph = tiny_graph(arena, run_draw_config(model), &options);
    struct drawn_rules drawn = layout_rules_draw(arena, draw, graph, draw_int(draw, 2, 8));
    of->parallel.layouts = drawn.rules;
    of->parallel.layout_count = drawn.count;
}

static const char *tps_text(struct arena *arena, const struct parallel *parallel)
{
    const char *text = "tp of stages";
    for (int s = 0; s < parallel->stage_tp_count; s++)
        text = arena_print(arena, "%s %d", text, parallel->stage_tp[s]);
    return text;
}

static void unlike_meshes_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("runs with meshes", 2026);
    struct run_outcome *known[DRAWN_MODEL_COUNT][2] = {0};
    struct arena scratch = {0};
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : OTHERWISE_CASES, ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        add_meshes(&scratch, &draw, &of);
        // No pipeline has parameters that stay for a while.
        of.parallel.offload.turn_blocks = of.parallel.offload.between_layers = 0;
        if (draw_int(&draw, 0, 2) == 0) add_rules(&scratch, &draw, model, &of);
        struct err why = {0};
        bool is_asked = parallel_has_meshes(&of.parallel);
        struct run_outcome *found = is_asked ? run_case_run(&scratch, &of, &why) : NULL;
        if (!found) {
            if (is_asked && why.kind != ERR_USAGE) fail_msg("%s", why.text);
            if (more && is_asked) print_message("# refused: %s\n", why.text);
            arena_free(&scratch);
            assert_in_range(++refused, 0, 100 * wanted + 100);
            continue;
        }
        struct run_outcome **expected = &known[model][of.dropout];
        struct run_case one = run_case_new(run_draw_config(model), DRAWN_SEQ, DRAWN_BATCH);
        one.dropout = of.dropout;
        if (!*expected) *expected = run_case_done(*state, &one);
        ran++;
        const char *difference =
            found->done ? difference_of(&scratch, *expected, found) : found->error;
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, model %d, %s, %d layouts: %s: %s\n",
                        (unsigned long long)seed.state, model, tps_text(&scratch, &of.parallel),
                        of.parallel.layout_count, run_case_text(&scratch, &of), difference);
        }
        arena_free(&scratch);
    }
    print_message("# %d plans ran, %d drawn were refused or had none\n", ran, refused);
    assert_int_equal(failed, 0);
}

// Experts over what tp lends to dp, over both, split inside; and beside ZeRO's shards.
static void experts_lie_over_unlike_meshes(void **state)
{
    static const char CONFIG[] =
        "{\"model_type\": \"mixtral\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 4, \"intermediate_size\": 8, \"num_local_experts\": 8, "
        "\"num_experts_per_tok\": 2}";
    static const struct {
        int tp, dp, ep, etp, zero, tps[2];
        bool sp;
    } CASES[] = {
        {2, 1, 2, 1, 0, {2, 1}, false}, {2, 2, 2, 1, 1, {1, 2}, true},
        {2, 2, 4, 1, 3, {2, 1}, true},  {4, 1, 2, 2, 0, {4, 2}, false},
        {4, 1, 4, 1, 2, {1, 4}, true},  {2, 2, 2, 2, 0, {2, 1}, false},
        {4, 1, 2, 1, 3, {2, 4}, true},
    };
    struct run_case one = run_case_new(CONFIG, 8, 8);
    struct run_outcome *expected = run_case_done(*state, &one);
    int ran = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run_case of = one;
        struct parallel *parallel = &of.parallel;
        parallel->degree[AXIS_TP] = CASES[i].tp;
        parallel->degree[AXIS_DP] = CASES[i].dp;
        parallel->degree[AXIS_EP] = CASES[i].ep;
        parallel->degree[AXIS_ETP] = CASES[i].etp;
        parallel->degree[AXIS_PP] = parallel->stage_tp_count = 2;
        parallel->stage_tp = CASES[i].tps;
        parallel->schedule = SCHEDULE_1F1B;
        parallel->zero = CASES[i].zero;
        parallel->sp = CASES[i].sp;
        parallel->micro_batch = 4 / CASES[i].dp;
        struct err why = {0};
        struct run_outcome *found = run_case_run(*state, &of, &why);
        if (!found) print_message("# case %zu: %s\n", i, why.text);
        if (!found) continue;
        ran++;
        const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (difference) fail_msg("case %zu: %s", i, difference);
    }
    // With etp on what tp lends, tokens of dp would leave for the experts first.
    assert_int_equal(ran, (int)(sizeof CASES / sizeof *CASES) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_lie_over_unlike_meshes),
        cmocka_unit_test(unlike_meshes_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
