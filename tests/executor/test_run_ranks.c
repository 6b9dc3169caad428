#include "tests/support/test.h"

#include "plan/boundary.h"
#include "tests/support/layout_rules_draw.h"
#include "tests/support/run_draw.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdlib.h>

// Plans whose stages have unlike numbers of ranks, on up to eight of them, each against one rank
// that does it all, in double precision: losses, weights, gradients, what ranks exchanged and what
// they held. MESHWRIGHT_CASES runs more of them.

static const double TOLERANCE = 1e-12;

static const char EXPERTS[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"intermediate_size\": 8, \"num_local_experts\": 8, "
    "\"num_experts_per_tok\": 2}";

enum { OTHERWISE_CASES = 6, RANKS_MOST = 8, STAGES_MOST = 3, RULES_MOST = 64 };

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    // What experts are sent hangs on what the router says.
    const int *degree = found->program->parallel.degree;
    if (difference || degree[AXIS_EP] * degree[AXIS_ETP] > 1) return difference;
    difference = run_outcome_traffic(arena, found);
    if (difference) return difference;
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

// Groups of ZeRO, some for parameters and gradients apart.
static void add_shards(struct draw *draw, struct parallel *parallel)
{
    int cp = parallel->degree[AXIS_CP], dp = parallel->degree[AXIS_DP];
    bool is_apart = parallel->zero > 1 && draw_int(draw, 0, 1);
    parallel->zero_group = parallel->zero > 0 && dp > 1 ? cp * draw_int(draw, 0, 2) : 0;
    parallel->zero_gradients = is_apart ? cp : 0;
    parallel->zero_parameters = is_apart && parallel->zero == 3 ? cp : 0;
}

// Whether each stage can split the sequences of a round: else the plan is refused.
static bool stages_divide(const struct parallel *parallel)
{
    int sequences = parallel->degree[AXIS_DP] * parallel->micro_batch;
    bool divide = true;
    for (int s = 0; s < parallel->stage_ranks_count; s++)
        divide &= sequences % (parallel->stage_ranks[s] / parallel->stage_tp[s] /
                               parallel->degree[AXIS_CP]) ==
                  0;
    return divide;
}

// Layouts of single operators, which are of tp in each stage, or of one stage each: what of these
// it has no operator for, or shares with others, is left out.
static void add_rules(struct arena *arena, struct draw *draw, int model, struct run_case *of)
{
    const struct import_options options = {.flash = of->parallel.attention == ATTENTION_FLASH};
    struct graph *graph = tiny_graph(arena, run_draw_config(model), &options);
    struct parallel *parallel = &of->parallel;
    bool is_staged = draw_int(draw, 0, 1) && stages_divide(parallel);
    int stages = is_staged ? parallel->stage_ranks_count : 1, count = 0;
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, RULES_MOST);
    const struct workload workload = {.seq_len = of->seq_len, .global_batch = of->global_batch};
    for (int s = 0; s < stages; s++) {
        struct drawn_rules drawn = layout_rules_draw(arena, draw, graph, draw_int(draw, 2, 8));
        for (int i = 0; i < drawn.count && count < RULES_MOST; i++) {
            struct parallel alone = *parallel;
            struct err why = {0};
            rules[count] = drawn.rules[i];
            rules[count].is_of_stage = is_staged;
            rules[count].stage = s;
            alone.layouts = &rules[count];
            alone.layout_count = 1;
            count += !is_staged || layout_rules_check(graph, &workload, &alone, &why);
        }
    }
    parallel->layouts = rules;
    parallel->layout_count = count;
}

// The stages of one mesh that the draw may have become others; the rest stays as drawn. Of the
// numbers drawn first those that have no room are drawn again.
static void add_ranks(struct arena *arena, struct draw *draw, bool has_experts, struct run_case *of)
{
    static const int TPS[] = {1, 2, 2, 4}, DPS[] = {1, 1, 2, 2, 4};
    struct parallel *parallel = &of->parallel;
    int *tps = ARENA_NEW(arena, int, STAGES_MOST), *ranks = ARENA_NEW(arena, int, STAGES_MOST);
    int count, all, cp;
    do {
        count = draw_int(draw, 2, STAGES_MOST);
        cp = draw_int(draw, 0, 3) == 0 ? 2 : 1;
        all = 0;
        for (int s = 0; s < count; s++) {
            tps[s] = TPS[draw_int(draw, 0, 3)];
            ranks[s] = tps[s] * cp * DPS[draw_int(draw, 0, 4)];
            all += ranks[s];
        }
    } while (all > RANKS_MOST);
    int widest = 0;
    for (int s = 1; s < count; s++)
        if (tps[s] > tps[widest]) widest = s;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_PP] = count;
    parallel->degree[AXIS_CP] = cp;
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel->degree[AXIS_TP] = tps[widest];
    parallel->degree[AXIS_DP] = ranks[widest] / tps[widest] / cp;
    parallel->stage_tp = tps;
    parallel->stage_ranks = ranks;
    parallel->stage_tp_count = parallel->stage_ranks_count = count;
    parallel->stage_layers_count = 0;
    parallel->stage_layers = NULL;
    parallel->micro_batch = 1 << draw_int(draw, 0, 3);
    parallel->vpp = 1;
    parallel->schedule = draw_int(draw, 0, 1) ? SCHEDULE_1F1B : SCHEDULE_GPIPE;
    if (draw_int(draw, 0, 3) == 0) {
        parallel->vpp = 2;
        parallel->schedule = draw_int(draw, 0, 1) ? SCHEDULE_INTERLEAVED : SCHEDULE_ZB_V;
    }
    if (draw_int(draw, 0, 3) == 0) parallel->tp_kind = (enum tp_kind)draw_int(draw, TP_2D, TP_3D);
    if (parallel->tp_kind != TP_1D) parallel->sp = false;
    if (has_experts && draw_int(draw, 0, 1)) parallel->degree[AXIS_EP] = 2;
    if (parallel->degree[AXIS_EP] > 1 && draw_int(draw, 0, 2) == 0) parallel->degree[AXIS_ETP] = 2;
    add_shards(draw, parallel);
    parallel_default_order(parallel);
}

static const char *ranks_text(struct arena *arena, const struct parallel *parallel)
{
    const char *text = "ranks (tp) of stages";
    for (int s = 0; s < parallel->stage_ranks_count; s++)
        text =
            arena_print(arena, "%s %d(%d)", text, parallel->stage_ranks[s], parallel->stage_tp[s]);
    return text;
}

static bool is_unlike(const struct parallel *parallel)
{
    for (int s = 1; s < parallel->stage_ranks_count; s++)
        if (parallel->stage_ranks[s] != parallel->stage_ranks[0]) return true;
    return false;
}

static void unlike_ranks_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("runs with ranks", 2028);
    struct run_outcome *known[DRAWN_MODEL_COUNT][2] = {0};
    struct arena scratch = {0};
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : OTHERWISE_CASES, ran = 0, failed = 0, refused = 0;
    int kinds[4] = {0};
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        add_ranks(&scratch, &draw, false, &of);
        // No pipeline has parameters that stay for a while.
        of.parallel.offload.turn_blocks = of.parallel.offload.between_layers = 0;
        if (draw_int(&draw, 0, 3) == 0) add_rules(&scratch, &draw, model, &of);
        struct err why = {0};
        bool is_asked = is_unlike(&of.parallel);
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
        kinds[0] += of.parallel.tp_kind != TP_1D;
        kinds[1] += parallel_groups_shards(&of.parallel);
        kinds[2] += of.parallel.layout_count > 0;
        kinds[3] += layout_rules_are_staged(&of.parallel);
        const char *difference =
            found->done ? difference_of(&scratch, *expected, found) : found->error;
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, model %d, %s: %s: %s\n",
                        (unsigned long long)seed.state, model, ranks_text(&scratch, &of.parallel),
                        run_case_text(&scratch, &of), difference);
        }
        arena_free(&scratch);
    }
    print_message(
        "# %d plans ran, %d of them on grids, %d with groups of ZeRO, %d with layouts, of single "
        "stages %d; %d drawn were refused or had none\n",
        ran, kinds[0], kinds[1], kinds[2], kinds[3], refused);
    assert_int_equal(failed, 0);
}

// Numbers that share no divisor, with and without ZeRO, sequences split, and a schedule whose
// weights' gradients come later.
static void ranks_may_share_no_divisor(void **state)
{
    static const char CONFIG[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 4, \"intermediate_size\": 8}";
    static const struct {
        int ranks[3], tps[3], tp, dp, zero, micro_batch;
        enum schedule_kind schedule;
        bool sp;
    } CASES[] = {
        {{3, 1, 4}, {1, 1, 1}, 1, 3, 0, 4, SCHEDULE_1F1B, false},
        {{3, 1, 4}, {1, 1, 2}, 2, 2, 1, 3, SCHEDULE_1F1B, true},
        {{4, 1, 3}, {4, 1, 1}, 4, 1, 3, 6, SCHEDULE_GPIPE, true},
        {{2, 4, 2}, {2, 2, 1}, 2, 1, 2, 4, SCHEDULE_GPIPE, false},
        {{1, 4, 2}, {1, 4, 2}, 4, 1, 1, 2, SCHEDULE_1F1B, false},
        {{4, 2, 1}, {1, 2, 1}, 2, 1, 3, 4, SCHEDULE_ZB_H1, true},
    };
    struct run_case one = run_case_new(CONFIG, 8, 12);
    struct run_outcome *expected = run_case_done(*state, &one);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run_case of = one;
        struct parallel *parallel = &of.parallel;
        parallel->degree[AXIS_TP] = CASES[i].tp;
        parallel->degree[AXIS_DP] = CASES[i].dp;
        parallel->degree[AXIS_PP] = parallel->stage_tp_count = parallel->stage_ranks_count = 3;
        parallel->stage_tp = CASES[i].tps;
        parallel->stage_ranks = CASES[i].ranks;
        parallel->schedule = CASES[i].schedule;
        parallel->zero = CASES[i].zero;
        parallel->sp = CASES[i].sp;
        parallel->micro_batch = CASES[i].micro_batch;
        const char *difference = difference_of(*state, expected, run_case_done(*state, &of));
        if (difference) fail_msg("case %zu: %s", i, difference);
    }
}

// Experts over all or some of the ranks of each stage, split inside, and beside ZeRO; shards over
// groups, which a stage with fewer ranks has whole; grids of tp.
static void all_kinds_of_axes_lie_over_unlike_numbers(void **state)
{
    static const struct {
        int ranks[2], tps[2], tp, dp, ep, etp, zero, group, gradients, parameters;
        enum tp_kind kind;
        bool sp;
    } CASES[] = {
        {{4, 2}, {1, 1}, 1, 4, 2, 1, 0, 0, 0, 0, TP_1D, false},
        {{2, 4}, {1, 2}, 2, 2, 2, 1, 1, 0, 0, 0, TP_1D, true},
        {{4, 2}, {4, 2}, 4, 1, 2, 1, 3, 0, 0, 0, TP_1D, true},
        {{4, 2}, {2, 1}, 2, 2, 1, 2, 0, 0, 0, 0, TP_1D, false},
        {{4, 2}, {1, 1}, 1, 4, 1, 1, 1, 2, 0, 0, TP_1D, false},
        {{2, 4}, {1, 1}, 1, 2, 2, 1, 3, 2, 1, 1, TP_1D, false},
        {{4, 1}, {1, 1}, 1, 4, 1, 1, 2, 4, 2, 0, TP_1D, false},
        {{1, 4}, {1, 2}, 2, 2, 1, 1, 1, 1, 0, 0, TP_1D, true},
        {{4, 2}, {4, 1}, 4, 1, 1, 1, 0, 0, 0, 0, TP_2D, false},
        {{2, 4}, {2, 4}, 4, 1, 1, 1, 1, 0, 0, 0, TP_2D_SUMMA, false},
    };
    static const char DENSE[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 4, \"intermediate_size\": 8}";
    struct run_case ones[] = {run_case_new(EXPERTS, 8, 8), run_case_new(DENSE, 8, 8)};
    struct run_outcome *expected[] = {run_case_done(*state, &ones[0]),
                                      run_case_done(*state, &ones[1])};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        bool is_grid = CASES[i].kind != TP_1D;
        struct run_case of = ones[is_grid];
        struct parallel *parallel = &of.parallel;
        parallel->degree[AXIS_TP] = CASES[i].tp;
        parallel->degree[AXIS_DP] = CASES[i].dp;
        parallel->degree[AXIS_EP] = CASES[i].ep;
        parallel->degree[AXIS_ETP] = CASES[i].etp;
        parallel->degree[AXIS_PP] = parallel->stage_tp_count = parallel->stage_ranks_count = 2;
        parallel->stage_tp = CASES[i].tps;
        parallel->stage_ranks = CASES[i].ranks;
        parallel->schedule = SCHEDULE_1F1B;
        parallel->zero = CASES[i].zero;
        parallel->zero_group = CASES[i].group;
        parallel->zero_gradients = CASES[i].gradients;
        parallel->zero_parameters = CASES[i].parameters;
        parallel->tp_kind = CASES[i].kind;
        parallel->sp = CASES[i].sp;
        parallel->micro_batch = 4 / CASES[i].dp;
        const char *difference =
            difference_of(*state, expected[is_grid], run_case_done(*state, &of));
        if (difference) fail_msg("case %zu: %s", i, difference);
    }
}

// Rules of one stage each, which differ from each other and from the table, beside one of all.
static void each_stage_runs_layouts_of_its_own(void **state)
{
    static const char CONFIG[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 4, \"intermediate_size\": 8}";
#define OF(name, split, of_stage)                                                              \
    {                                                                                          \
        .operator= name, .axis = AXIS_TP, .dim = split, .is_of_stage = true, .stage = of_stage \
    }
    static const struct layout_rule RULES[] = {
        {.operator= "layer.mlp.norm", .axis = AXIS_TP, .dim = DIM_BATCH},
        OF("layer.mlp.up", DIM_HIDDEN, 0),
        OF("layer.mlp.down", DIM_NONE, 0),
        OF("embedding.embedding.token", DIM_HIDDEN, 0),
        OF("layer.mlp.up", DIM_SEQ, 1),
        OF("layer.mlp.gate", DIM_SEQ, 1),
        OF("layer.attention.out", DIM_BATCH, 1),
        OF("layer.mlp.norm", DIM_NONE, 2),
        OF("head.head.lm", DIM_SEQ, 2)};
#undef OF
    static const struct {
        int ranks[3], tps[3], tp, dp, zero, micro_batch;
        bool sp;
    } CASES[] = {{{2, 4, 2}, {2, 4, 2}, 4, 1, 0, 4, false},
                 {{2, 4, 2}, {2, 2, 2}, 2, 1, 1, 4, true},
                 {{4, 2, 2}, {2, 2, 2}, 2, 2, 3, 2, false},
                 {{4, 2, 1}, {4, 2, 1}, 4, 1, 1, 4, false}};
    struct run_case one = run_case_new(CONFIG, 8, 8);
    struct run_outcome *expected = run_case_done(*state, &one);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int64_t sent[2];
        for (int ruled = 0; ruled < 2; ruled++) {
            struct run_case of = one;
            struct parallel *parallel = &of.parallel;
            parallel->degree[AXIS_TP] = CASES[i].tp;
            parallel->degree[AXIS_DP] = CASES[i].dp;
            parallel->degree[AXIS_PP] = parallel->stage_tp_count = parallel->stage_ranks_count = 3;
            parallel->stage_tp = CASES[i].tps;
            parallel->stage_ranks = CASES[i].ranks;
            parallel->schedule = SCHEDULE_1F1B;
            parallel->zero = CASES[i].zero;
            parallel->sp = CASES[i].sp;
            parallel->micro_batch = CASES[i].micro_batch;
            parallel->layouts = RULES;
            parallel->layout_count = ruled ? sizeof RULES / sizeof *RULES : 0;
            struct run_outcome *found = run_case_done(*state, &of);
            const char *difference = difference_of(*state, expected, found);
            if (difference) fail_msg("case %zu: %s", i, difference);
            sent[ruled] = 0;
            for (int k = 0; k < found->kind_count; k++)
                sent[ruled] += (int64_t)found->kinds[k].bytes;
        }
        assert_int_not_equal(sent[0], sent[1]);
    }
}

// The same with experts over ranks, drawn.
static void drawn_experts_lie_over_unlike_numbers(void **state)
{
    struct draw draw = draw_start("experts with ranks", 2029);
    struct arena scratch = {0};
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : OTHERWISE_CASES, ran = 0, tried = 0;
    struct run_case one = run_case_new(EXPERTS, 8, 16);
    struct run_outcome *expected = run_case_done(*state, &one);
    while (ran < wanted) {
        struct draw seed = draw;
        struct run_case of = one;
        of.parallel.zero = draw_int(&draw, 0, 3);
        of.parallel.sp = draw_int(&draw, 0, 1);
        add_ranks(&scratch, &draw, true, &of);
        struct err why = {0};
        bool is_asked = is_unlike(&of.parallel) && of.parallel.tp_kind == TP_1D &&
                        of.parallel.degree[AXIS_EP] > 1;
        struct run_outcome *found = is_asked ? run_case_run(&scratch, &of, &why) : NULL;
        assert_in_range(++tried, 0, 200 * wanted + 100);
        if (!found && is_asked && why.kind != ERR_USAGE) fail_msg("%s", why.text);
        const char *difference = !found        ? NULL
                                 : found->done ? difference_of(&scratch, expected, found)
                                               : found->error;
        if (difference)
            fail_msg("MESHWRIGHT_SEED=%llu, %s: %s: %s", (unsigned long long)seed.state,
                     ranks_text(&scratch, &of.parallel), run_case_text(&scratch, &of), difference);
        ran += found != NULL;
        arena_free(&scratch);
    }
    print_message("# %d plans ran of %d drawn\n", ran, tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_may_share_no_divisor),
        cmocka_unit_test(all_kinds_of_axes_lie_over_unlike_numbers),
        cmocka_unit_test(each_stage_runs_layouts_of_its_own),
        cmocka_unit_test(drawn_experts_lie_over_unlike_numbers),
        cmocka_unit_test(unlike_ranks_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
