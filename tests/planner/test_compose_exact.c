#include "planner/composing.h"

#include "planner/space.h"
#include "tests/support/test.h"

#include <math.h>

// Bounds of the composer against sums over all stages, one by one, and by what is known of them:
// of gpt2-xl on pipelines of a node of eight.

struct asked {
    struct arena scratch;
    struct search_request request;
    struct composer *composer;
    struct parallel parallel;
};

static struct asked *ask_of(struct arena *arena, const char *cluster, const char *stack,
                            const struct workload *workload, int pp, int vpp)
{
    struct asked *of = ARENA_NEW(arena, struct asked, 1);
    struct err err = {0};
    of->request = (struct search_request){.pins = pins_none()};
    of->request.model = model_load(arena, "gpt2-xl", NULL, NULL, &err);
    of->request.cluster = cluster_load(arena, cluster, &err);
    of->request.stack = stack_load(arena, stack, &err);
    of->request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    of->request.workload = *workload;
    of->parallel = (struct parallel){.vpp = vpp,
                                     .micro_batch = 2,
                                     .overlap = of->request.stack->overlap_default,
                                     .passes = of->request.stack->passes,
                                     .schedule = vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B,
                                     .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        of->parallel.degree[axis] = 1;
    of->parallel.degree[AXIS_PP] = pp;
    of->parallel.degree[AXIS_DP] = 8 / pp;
    parallel_default_order(&of->parallel);
    struct memo *memo = memo_new(arena, &of->scratch, &of->request);
    of->composer = composer_new(arena, &of->scratch, memo);
    composer_group(of->composer, &of->parallel);
    return of;
}

static struct asked *ask(struct arena *arena, const char *stack, int pp, int vpp)
{
    const struct workload workload = {.seq_len = 2048,
                                      .global_batch = 128,
                                      .precision = PRECISION_BF16,
                                      .optimizer = OPTIMIZER_ADAMW};
    return ask_of(arena, "dgx-a100-80g", stack, &workload, pp, vpp);
}

static double sum_of(const struct chunk_price *class)
{
    double sum_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        for (int part = 0; part < PART_COUNT; part++)
            sum_s += class->phase_s[phase][part];
    return sum_s;
}

static double micro_batches(const struct asked *of)
{
    return (double)parallel_micro_batch_count(&of->parallel, 128);
}

// A stage works all micro-batches through its chunks, behind what the stages before it take for the
// first one's first chunk.
static void the_busiest_stage_bounds_a_step(void **state)
{
    static const struct {
        int pp, vpp;
    } CASES[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 2}, {8, 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct asked *of = ask(*state, "megatron-core", CASES[i].pp, CASES[i].vpp);
        struct step_price price = composing_steady(of->composer, &of->parallel);
        double most_s = 0, before_s = 0;
        assert_true(composing_waits(of->composer, &of->parallel));
        for (int stage = 0; stage < CASES[i].pp; stage++) {
            double work_s = 0;
            for (int chunk = 0; chunk < CASES[i].vpp; chunk++)
                work_s += sum_of(&price.classes[price.class_of[stage * CASES[i].vpp + chunk]]);
            most_s = fmax(most_s, before_s + work_s * micro_batches(of));
            before_s += sum_of(&price.classes[price.class_of[stage * CASES[i].vpp]]);
        }
        double wanted_s = most_s + price.overhead_s;
        double is_s = composer_busiest(of->composer, &of->parallel);
        assert_true(wanted_s > 0 && fabs(is_s / wanted_s - 1) < 2e-9);
        assert_true(is_s <= composer_cost(of->composer, &of->parallel).step_s);
        arena_free(&of->scratch);
    }
}

// What stages wait for is in no bound where W stands apart.
static void stages_of_parted_gradients_do_not_wait(void **state)
{
    struct asked *of = ask(*state, "meshwright", 4, 1);
    of->parallel.schedule = SCHEDULE_ZB_H1;
    assert_false(composing_waits(of->composer, &of->parallel));
    struct step_price price = composing_steady(of->composer, &of->parallel);
    double most_s = 0;
    for (int stage = 0; stage < 4; stage++)
        most_s = fmax(most_s, sum_of(&price.classes[price.class_of[stage]]));
    double wanted_s = most_s * micro_batches(of) + price.overhead_s;
    assert_true(fabs(composer_busiest(of->composer, &of->parallel) / wanted_s - 1) < 2e-9);
    arena_free(&of->scratch);
}

// States on the host are updated behind all else, and a step is no shorter than the longest update
// of a stage.
static void the_longest_update_of_hosts_comes_behind(void **state)
{
    for (int pp = 1; pp <= 4; pp *= 2) {
        struct asked *of = ask(*state, "megatron-core", pp, pp > 2 ? 2 : 1);
        double without_s = composer_busiest(of->composer, &of->parallel);
        of->parallel.offload.optimizer = TIER_HOST;
        const struct division *division;
        const struct step_price price = composing_steady(of->composer, &of->parallel),
                                *once = composing_once(of->composer, &of->parallel,
                                                       of->composer->division, &division);
        assert_ptr_equal(division, of->composer->division);
        double most_s = 0;
        for (int stage = 0; stage < pp; stage++) {
            double own_s = 0;
            for (int chunk = 0; chunk < of->parallel.vpp; chunk++)
                own_s += once->classes[price.class_of[stage * of->parallel.vpp + chunk]].update_s;
            most_s = fmax(most_s, own_s);
        }
        double is_s = composer_busiest(of->composer, &of->parallel) - without_s;
        assert_true(most_s > 0 && fabs(is_s / most_s - 1) < 1e-6);
        arena_free(&of->scratch);
    }
}

// The stage that needs most is found without asking each.
static void the_worst_stage_is_the_worst_of_all(void **state)
{
    static const struct {
        enum schedule_kind schedule;
        int vpp, in_flight;
    } CASES[] = {
        {SCHEDULE_GPIPE, 1, 0},       {SCHEDULE_1F1B, 1, 0},    {SCHEDULE_INTERLEAVED, 2, 0},
        {SCHEDULE_INTERLEAVED, 3, 0}, {SCHEDULE_ZB_H1, 1, 0},   {SCHEDULE_ZB_H2, 1, 0},
        {SCHEDULE_ZB_V, 2, 0},        {SCHEDULE_ZB_AUTO, 1, 1}, {SCHEDULE_ZB_AUTO, 1, 3},
        {SCHEDULE_ZB_AUTO, 1, 4},     {SCHEDULE_ZB_AUTO, 1, 7}};
    static const int EVEN[] = {12, 12, 12, 12}, FRONT[] = {20, 10, 10, 8}, BACK[] = {6, 10, 16, 16},
                     MIDDLE[] = {8, 15, 17, 8}, THIRD[] = {10, 9, 20, 9};
    static const int *const LAYERS[] = {EVEN, FRONT, BACK, MIDDLE, THIRD};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        for (int pp = 2; pp <= 8; pp *= 2) {
            struct asked *of = ask(*state, "meshwright", pp, CASES[i].vpp);
            struct parallel *parallel = &of->parallel;
            parallel->schedule = CASES[i].schedule;
            parallel->in_flight = CASES[i].in_flight;
            for (int split = 0; split < (pp == 4 ? 6 : 1); split++) {
                parallel->stage_layers = split > 0 ? LAYERS[split - 1] : NULL;
                parallel->stage_layers_count = split > 0 ? 4 : 0;
                int64_t most = -1;
                int worst = -1;
                for (int stage = 0; stage < pp; stage++) {
                    int64_t bytes =
                        composer_stage_memory(of->composer, parallel, stage).reserved_bytes;
                    if (bytes > most) most = bytes, worst = stage;
                }
                int found = -1;
                struct memory_parts parts = composer_memory(of->composer, parallel, &found);
                assert_true(parts.reserved_bytes == most);
                assert_true(composer_stage_memory(of->composer, parallel, found).reserved_bytes ==
                            most);
                assert_true(found >= 0 && worst >= 0);
                assert_true(composer_meets(of->composer, parallel, most));
                assert_false(composer_meets(of->composer, parallel, most - 1));
            }
            arena_free(&of->scratch);
        }
    }
}

static struct candidate priced(struct asked *of)
{
    struct candidate kept = {.parallel = of->parallel};
    kept.cost = composer_cost(of->composer, &of->parallel);
    return kept;
}

// Of one stage with one way to recompute what is short is taken from layers in parts: with room for
// half of what they spare, half of them are recomputed.
static void room_is_made_in_proportion(void **state)
{
    struct asked *of = ask(*state, "megatron-core", 1, 1);
    struct candidate kept = priced(of);
    const int full = recompute_value(RECOMPUTE_FULL, 0);
    const int values[] = {recompute_value(RECOMPUTE_NONE, 0), full};
    struct composer_ways ways = {.recomputes = values, .count = 2};
    int stage;
    struct parallel all = of->parallel;
    all.recompute = RECOMPUTE_FULL;
    int64_t most = composer_memory(of->composer, &of->parallel, &stage).reserved_bytes;
    int64_t least = composer_memory(of->composer, &all, &stage).reserved_bytes;
    double most_s = composer_busiest(of->composer, &all);
    double least_s = composer_pressed(of->composer, &kept, &ways, 2 * most);
    assert_true(
        fabs(least_s / (composer_busiest(of->composer, &of->parallel) + kept.cost.update_s) - 1) <
        1e-6);
    // With room for all recomputed the working memory of one is not counted: the bound is below.
    double all_s = composer_pressed(of->composer, &kept, &ways, least);
    assert_true(all_s > least_s && all_s <= most_s + kept.cost.update_s);
    assert_true(isinf(composer_pressed(of->composer, &kept, &ways, least / 4)));
    // From the first byte that is short on the seconds rise by the same for each.
    int64_t step = (most - least) / 16;
    double before_s = 0, slope = 0;
    int rising = 0;
    for (int64_t limit = most; limit >= least; limit -= step) {
        double now_s = composer_pressed(of->composer, &kept, &ways, limit);
        if (before_s > least_s * (1 + 1e-9)) {
            double rise = now_s - before_s;
            if (rising++ > 0) assert_true(fabs(rise / slope - 1) < 1e-3);
            slope = rise;
        }
        before_s = now_s;
    }
    assert_true(rising > 4);
    arena_free(&of->scratch);
}

// The cheapest bytes are freed first, whatever layer, chunk or way they are of: each further byte
// costs as much or more.
static void cheap_room_is_made_first(void **state)
{
    for (int vpp = 1; vpp <= 3; vpp++) {
        for (int moves = 0; moves < 2; moves++) {
            struct asked *of = ask(*state, "megatron-core", 4, vpp);
            struct candidate kept = priced(of);
            struct space_values values =
                space_recomputes(&of->request, memo_graph(of->composer->memo, ATTENTION_FLASH, 1));
            struct composer_ways ways = {
                .recomputes = values.values, .count = values.count, .moves = moves};
            int stage;
            int64_t most = composer_memory(of->composer, &of->parallel, &stage).reserved_bytes;
            int64_t floor = composer_floor_bytes(of->composer, &of->parallel);
            int64_t step = (most - floor) / 40;
            double before_s = 0, rise_before_s = 0;
            int rising = 0;
            for (int64_t limit = most; limit > floor; limit -= step) {
                double now_s = composer_pressed(of->composer, &kept, &ways, limit);
                if (isinf(now_s)) break;
                double rise_s = before_s > 0 ? now_s - before_s : 0;
                assert_true(rise_s > rise_before_s * (1 - 1e-6) - 1e-9 * now_s);
                rising += rise_s > 1e-9 * now_s;
                before_s = now_s;
                rise_before_s = rise_s;
            }
            assert_true(rising > 5);
            arena_free(&of->scratch);
        }
    }
}

// Sequences of 24 tokens make products in 8 bits, whose sides are multiples of 16, of two at a time
// and not of one: the weights are cast once a step in the one case alone, whichever is asked first.
static void casts_hang_on_the_micro_batch(void **state)
{
    const struct workload workload = {.seq_len = 24,
                                      .global_batch = 128,
                                      .precision = PRECISION_FP8,
                                      .optimizer = OPTIMIZER_ADAMW};
    double alone_s[2];
    for (int i = 0; i < 2; i++) {
        struct asked *of = ask_of(*state, "dgx-h100", "meshwright", &workload, 1, 1);
        of->parallel.micro_batch = 1 + i;
        composer_group(of->composer, &of->parallel);
        alone_s[i] = composer_cost(of->composer, &of->parallel).update_s;
        arena_free(&of->scratch);
    }
    assert_true(alone_s[1] > alone_s[0] && alone_s[0] > 0);
    struct asked *of = ask_of(*state, "dgx-h100", "meshwright", &workload, 1, 1);
    for (int i = 0; i < 4; i++) {
        of->parallel.micro_batch = 1 + i % 2;
        composer_group(of->composer, &of->parallel);
        assert_true(composer_cost(of->composer, &of->parallel).update_s == alone_s[i % 2]);
    }
    arena_free(&of->scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_stage_bounds_a_step),
        cmocka_unit_test(casts_hang_on_the_micro_batch),
        cmocka_unit_test(stages_of_parted_gradients_do_not_wait),
        cmocka_unit_test(the_longest_update_of_hosts_comes_behind),
        cmocka_unit_test(the_worst_stage_is_the_worst_of_all),
        cmocka_unit_test(room_is_made_in_proportion),
        cmocka_unit_test(cheap_room_is_made_first),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
