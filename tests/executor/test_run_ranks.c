#include "tests/support/test.h"

#include "plan/boundary.h"
#include "tests/support/run_draw.h"

#include <math.h>
#include <stdlib.h>

// Plans whose stages have unlike numbers of ranks, on up to eight of them, each against one rank
// that does it all, in double precision: losses, weights, gradients, what ranks exchanged and what
// they held. MESHWRIGHT_CASES runs more of them.

static const double TOLERANCE = 1e-12;

enum { OTHERWISE_CASES = 6, RANKS_MOST = 8, STAGES_MOST = 3 };

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

// The stages of one mesh that the draw may have become others; the rest stays as drawn. Of the
// numbers drawn first those that have no room are drawn again.
static void add_ranks(struct arena *arena, struct draw *draw, struct run_case *of)
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
    parallel->zero_group = parallel->zero_gradients = parallel->zero_parameters = 0;
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
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        add_ranks(&scratch, &draw, &of);
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
    print_message("# %d plans ran, %d drawn were refused or had none\n", ran, refused);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_may_share_no_divisor),
        cmocka_unit_test(unlike_ranks_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
