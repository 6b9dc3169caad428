#include "memory/keep/keep_model.h"
#include "tests/support/keep_problems.h"
#include "tests/support/test.h"

#include <math.h>

static bool is_usable(const struct keep_problem *problem, enum tier tier)
{
    if (tier == TIER_DEVICE) return true;
    if (!(problem->tiers >> tier & 1) || keep_rate(problem, tier) <= 0) return false;
    return tier != TIER_NVME || problem->nvme_bytes > 0;
}

struct answers {
    double least_s, least_lack_bytes;
};

// Every count of every class on every tier, with every recompute of every count of layers.
static struct answers every_choice(const struct keep_problem *problem)
{
    struct answers answers = {INFINITY, INFINITY};
    int steps = KEEP_LAYERS + 1;
    for (enum tier tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
        if (!is_usable(problem, tier)) continue;
        for (int code = 0; code < steps * steps * steps * steps * problem->recompute_count;
             code++) {
            struct keep_result choice = {.recompute = code / (steps * steps * steps * steps)};
            choice.recompute_layers = code % steps;
            int rest = code / steps;
            for (int c = 0; c < problem->class_count; c++, rest /= steps)
                if (tier != TIER_DEVICE)
                    choice.layers[tier][problem->classes[c].op_class] = rest % steps;
            struct keep_asked asked = keep_ask(problem, &choice, tier);
            if (!asked.fits_tiers) continue;
            answers.least_lack_bytes = fmin(answers.least_lack_bytes, asked.lack_bytes);
            if (asked.lack_bytes <= 0) answers.least_s = fmin(answers.least_s, asked.added_s);
        }
    }
    return answers;
}

static void the_best_choice_equals_every_choice(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("keep", 99);
    const char *wanted = getenv("MESHWRIGHT_KEEP_CASES");
    int cases = wanted ? atoi(wanted) : 300, seen[3] = {0};
    for (int i = 0; i < cases; i++) {
        struct keep_drawn drawn;
        keep_draw(&draw, &drawn);
        const struct keep_problem *problem = &drawn.problem;
        struct answers answers = every_choice(problem);
        struct milp_options options = {0};
        struct keep_result result = keep_solve(arena, problem, &options);
        struct keep_asked asked = keep_ask(problem, &result, keep_tier(&result));
        assert_true(asked.fits_tiers);
        if (answers.least_s == INFINITY) {
            assert_int_equal(result.status, MILP_INFEASIBLE);
            assert_true(fabs((double)result.shortfall_bytes - answers.least_lack_bytes) < 1e5);
            seen[0]++;
            continue;
        }
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true(asked.lack_bytes <= 0);
        assert_true(fabs(asked.added_s - result.added_s) < 1e-9);
        assert_true(fabs(result.added_s - answers.least_s) < 1e-4);
        assert_true(result.bound_s <= answers.least_s + 1e-9);
        assert_true(result.moved_bytes <= result.static_bytes);
        seen[answers.least_s > 0 ? 2 : 1]++;
    }
    for (int i = 0; i < 3 && cases >= 300; i++)
        assert_true(seen[i] > cases / 20);
}

// Six layers of 10 MB, two micro-batches alive, 5 MB beside them.
static void bounds_are_what_fractions_of_layers_come_to(void **state)
{
    (void)state;
    struct keep_class class;
    struct keep_recompute recomputes[2];
    struct keep_stage stage;
    struct keep_problem problem = keep_one_class(&class, recomputes, &stage);
    // Of the 120 MB 19 too many are recomputed, 20 a layer, at a millisecond each; the unit of time
    // is a hundredth of six layers' recompute and copies.
    struct keep_model model = keep_model_of(&problem, &recomputes[1], TIER_DEVICE);
    double layers = (120 - (106 * (1 - 1e-5) - 5)) / 20;
    assert_true(fabs(keep_least(&model, false) - layers * 1e-3 / (6 * 0.021 / 100)) < 1e-9);
    // Without a way to recompute or to move none has room.
    model = keep_model_of(&problem, NULL, TIER_DEVICE);
    assert_true(keep_least(&model, false) == INFINITY);
    problem.device_bytes = 50 * KEEP_MEGABYTE;
    assert_true(fabs(keep_least(&model, true) - (125 - 50 * (1 - 1e-5)) / 0.5) < 1e-9);
    // A host of 40 MB takes two of the layers.
    problem.host_bytes = 40 * KEEP_MEGABYTE;
    model = keep_model_of(&problem, NULL, TIER_HOST);
    assert_true(fabs(keep_least(&model, true) - (85 - 50 * (1 - 1e-5)) / 0.5) < 1e-9);
}

// The search against GLPK: what it proves is that answer, and what it finds else is no better.
// Returns whether it is the answer.
static bool check_search(struct arena *arena, struct keep_model *model, bool for_lack,
                         const struct milp_result *wanted)
{
    const struct milp_options options = {0};
    struct keep_choice choice = {0};
    struct milp_result found = keep_search(arena, model, for_lack, &options, &choice);
    double best = wanted->values ? wanted->objective : INFINITY;
    if (!found.values) {
        assert_true(found.status == MILP_UNKNOWN || best == INFINITY);
        return best == INFINITY;
    }
    assert_true(choice.tiers_fit && (for_lack || choice.lack_bytes <= 0));
    assert_true(found.objective > best - 2e-4 && found.bound < best + 2e-4);
    bool is_it = found.objective < best + 2e-4;
    assert_true(is_it || found.status != MILP_OPTIMAL);
    return is_it;
}

// Each program by itself: what its bound rules out it does not find.
static void no_program_is_better_than_its_bound(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("keep bounds", 7);
    int near = 0, none = 0, count = 0, searched = 0;
    for (int i = 0; i < 100; i++) {
        struct keep_drawn drawn;
        keep_draw(&draw, &drawn);
        const struct keep_problem *problem = &drawn.problem;
        for (int at = 0; at < 4 * problem->recompute_count; at++) {
            enum tier tier = at % 4 < 2 ? TIER_DEVICE : TIER_HOST;
            bool for_lack = at % 2;
            if (!is_usable(problem, tier)) continue;
            const struct keep_recompute *recompute = &problem->recomputes[at / 4];
            struct keep_model model = keep_model_of(problem, at < 4 ? NULL : recompute, tier);
            struct milp_options options = {.no_presolve = true};
            struct keep_choice choice = {0};
            double least = keep_least(&model, for_lack);
            struct milp_result found = keep_model_solve(arena, &model, for_lack, &options, &choice);
            double best = found.values ? found.objective : INFINITY;
            assert_true(found.status == MILP_OPTIMAL || found.status == MILP_INFEASIBLE);
            assert_true(least <= best + KEEP_BOUND_SLACK);
            searched += check_search(arena, &model, for_lack, &found);
            none += least == INFINITY;
            near += best < INFINITY && least > 0.9 * best;
            count++;
        }
    }
    assert_true(none > count / 20 && near > count / 10 && searched > count * 9 / 10);
}

static void only_what_memory_needs_is_moved(void **state)
{
    struct keep_class class;
    struct keep_recompute recomputes[2];
    struct keep_stage stage;
    struct keep_problem problem = keep_one_class(&class, recomputes, &stage);
    struct milp_options options = {0};
    // 5 + 2 * 10 in transit + 2 * 10 a layer that is kept: 4 layers may be.
    struct keep_result result = keep_solve(*state, &problem, &options);
    assert_int_equal(result.status, MILP_OPTIMAL);
    assert_int_equal(result.layers[TIER_HOST][1], 2);
    assert_int_equal(result.recompute_layers, 0);
    assert_true(result.added_s == 0);
    assert_true(result.moved_bytes == 20 * KEEP_MEGABYTE &&
                result.static_bytes == 60 * KEEP_MEGABYTE);
    problem.device_bytes = 126 * KEEP_MEGABYTE;
    result = keep_solve(*state, &problem, &options);
    assert_true(result.moved_bytes == 0 && result.added_s == 0);
}

static void a_slow_link_or_no_host_memory_means_to_recompute(void **state)
{
    struct keep_class class;
    struct keep_recompute recomputes[2];
    struct keep_stage stage;
    struct keep_problem problem = keep_one_class(&class, recomputes, &stage);
    struct milp_options options = {0};
    for (int i = 0; i < 2; i++) {
        if (i == 0) problem.host_bytes_per_s = 100e6;
        if (i == 1) problem.host_bytes = KEEP_MEGABYTE;
        struct keep_result result = keep_solve(*state, &problem, &options);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_int_equal(result.layers[TIER_HOST][1], 0);
        assert_int_equal(result.recompute, 1);
        assert_int_equal(result.recompute_layers, 1);
        assert_true(result.added_s == 1e-3);
    }
}

static void what_does_not_fit_says_what_is_lacking(void **state)
{
    struct keep_class class;
    struct keep_recompute recomputes[2];
    struct keep_stage stage;
    struct keep_problem problem = keep_one_class(&class, recomputes, &stage);
    problem.device_bytes = 4 * KEEP_MEGABYTE;
    struct milp_options options = {0};
    struct keep_result result = keep_solve(*state, &problem, &options);
    assert_int_equal(result.status, MILP_INFEASIBLE);
    assert_in_range(result.shortfall_bytes, KEEP_MEGABYTE, KEEP_MEGABYTE + 1000);
}

static void chunks_waste_least(void **state)
{
    (void)state;
    static const int64_t TENSORS[] = {60, 40, 50, 50, 100, 30, 70};
    int64_t wasted = -1;
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 100, 50, 10, &wasted), 100);
    assert_int_equal(wasted, 0);
    // Chunks hold the largest tensor, and are looked for from there on.
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 32, 0, 32, NULL), 128);
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 32, 64, 32, &wasted), 160);
    assert_int_equal(wasted, 80);
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 401, 64, 32, &wasted), 400);
    assert_int_equal(wasted, 0);
    // One of 12 that is far above the others is no part of any chunk.
    static const int64_t OUTLIER[] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1000};
    assert_int_equal(keep_chunk_bytes(OUTLIER, 12, 8, 12, 4, &wasted), 8);
    assert_int_equal(wasted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_choice_equals_every_choice),
        cmocka_unit_test(bounds_are_what_fractions_of_layers_come_to),
        cmocka_unit_test(no_program_is_better_than_its_bound),
        cmocka_unit_test(only_what_memory_needs_is_moved),
        cmocka_unit_test(a_slow_link_or_no_host_memory_means_to_recompute),
        cmocka_unit_test(what_does_not_fit_says_what_is_lacking),
        cmocka_unit_test(chunks_waste_least),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
