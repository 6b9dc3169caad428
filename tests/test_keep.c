#include "planner/memory/keep.h"

#include "tests/draw.h"
#include "tests/test.h"

#include <math.h>

enum { CLASSES = 3, REDOS = 3, STAGES = 2, LAYERS = 3 };

struct drawn {
    struct keep_problem problem;
    struct keep_class classes[CLASSES];
    struct keep_redo redos[REDOS];
    struct keep_stage stages[STAGES];
};

static const int64_t MEGABYTE = 1000000;

// Sizes are whole megabytes and limits half ones: none is met within the slack that solvers need.
static void draw_problem(struct draw *draw, struct drawn *drawn)
{
    *drawn = (struct drawn){0};
    struct keep_problem *problem = &drawn->problem;
    problem->classes = drawn->classes;
    problem->redos = drawn->redos;
    problem->stages = drawn->stages;
    problem->class_count = draw_int(draw, 1, CLASSES);
    problem->redo_count = draw_int(draw, 1, REDOS);
    problem->stage_count = draw_int(draw, 1, STAGES);
    for (int c = 0; c < problem->class_count; c++) {
        unsigned class = (unsigned)(2 * c + draw_int(draw, 0, 1));
        drawn->classes[c] = (struct keep_class){2 * draw_int(draw, 0, 10) * MEGABYTE, class};
        for (int r = 0; r < problem->redo_count; r++) {
            int64_t saved = drawn->classes[c].bytes;
            if (r > 0) saved = saved * draw_int(draw, 0, 2) / 2;
            drawn->redos[r].saved_bytes[class] = saved;
        }
    }
    for (int r = 1; r < problem->redo_count; r++) {
        drawn->redos[r].seconds = 1e-3 * draw_int(draw, 1, 20);
        drawn->redos[r].transient_bytes = draw_int(draw, 0, 9) * MEGABYTE;
    }
    for (int s = 0; s < problem->stage_count; s++) {
        drawn->stages[s] = (struct keep_stage){.layer_count = draw_int(draw, 1, LAYERS),
                                               .in_flight = draw_int(draw, 1, 4),
                                               .other_bytes = draw_int(draw, 0, 40) * MEGABYTE,
                                               .forward_s = 1e-3 * draw_int(draw, 1, 20),
                                               .backward_s = 1e-3 * draw_int(draw, 1, 40)};
    }
    problem->micro_batch_count = 8;
    problem->device_bytes = draw_int(draw, 20, 300) * MEGABYTE + MEGABYTE / 2;
    problem->host_bytes_per_s = draw_int(draw, 0, 4) * 500e6;
    problem->nvme_bytes_per_s = draw_int(draw, 0, 2) * 400e6;
    problem->host_bytes = draw_int(draw, 0, 200) * MEGABYTE + MEGABYTE / 2;
    problem->nvme_bytes = draw_int(draw, 0, 400) * MEGABYTE + MEGABYTE / 2;
    problem->tiers = (unsigned)draw_int(draw, 0, 7) | 1;
}

// The same question asked of one choice, layer by layer: whether it fits, and what it adds.
struct asked {
    double added_s, lack_bytes;
    bool fits_tiers;
};

static double rate(const struct keep_problem *problem, enum tier tier)
{
    double host = problem->host_bytes_per_s, nvme = problem->nvme_bytes_per_s;
    return tier == TIER_NVME && nvme < host ? nvme : host;
}

static struct asked ask(const struct keep_problem *problem, const struct keep_result *choice,
                        enum tier tier)
{
    struct asked asked = {.lack_bytes = -INFINITY, .fits_tiers = true};
    const struct keep_redo *redo = &problem->redos[choice->redo];
    for (int s = 0; s < problem->stage_count; s++) {
        const struct keep_stage *stage = &problem->stages[s];
        double kept = 0, moved = 0, most = 0, added = 0, transient = 0;
        for (int i = 0; i < stage->layer_count; i++) {
            bool redone = choice->redo > 0 && i < choice->redo_layers;
            double up = 0, transit = 0, redo_s = redone ? redo->seconds : 0;
            for (int c = 0; c < problem->class_count; c++) {
                const struct keep_class *class = &problem->classes[c];
                int count = choice->layers[tier][class->op_class];
                int64_t bytes = redone ? redo->saved_bytes[class->op_class] : class->bytes;
                *(i < count ? &up : &kept) += (double)bytes;
                if (count > 0) transit += (double)bytes;
            }
            moved += up;
            most = fmax(most, transit);
            if (redone) transient = (double)redo->transient_bytes;
            added += redo_s;
            if (up <= 0) continue;
            added += fmax(0, up / rate(problem, tier) - stage->forward_s);
            added += fmax(0, up / rate(problem, tier) - stage->backward_s - redo_s);
        }
        double device = (double)stage->other_bytes + stage->in_flight * kept + 2 * most + transient;
        double on_host = tier == TIER_NVME ? 2 * most : stage->in_flight * moved;
        asked.lack_bytes = fmax(asked.lack_bytes, device - (double)problem->device_bytes);
        asked.added_s = fmax(asked.added_s, added);
        if (moved > 0 && on_host > (double)problem->host_bytes) asked.fits_tiers = false;
        bool on_nvme = tier == TIER_NVME;
        if (on_nvme && stage->in_flight * moved > (double)problem->nvme_bytes)
            asked.fits_tiers = false;
    }
    return asked;
}

static bool is_usable(const struct keep_problem *problem, enum tier tier)
{
    if (tier == TIER_DEVICE) return true;
    if (!(problem->tiers >> tier & 1) || rate(problem, tier) <= 0) return false;
    return tier != TIER_NVME || problem->nvme_bytes > 0;
}

struct answers {
    double least_s, least_lack_bytes;
};

// Every count of every class on every tier, with every redo of every count of layers.
static struct answers every_choice(const struct keep_problem *problem)
{
    struct answers answers = {INFINITY, INFINITY};
    int steps = LAYERS + 1;
    for (enum tier tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
        if (!is_usable(problem, tier)) continue;
        for (int code = 0; code < steps * steps * steps * steps * problem->redo_count; code++) {
            struct keep_result choice = {.redo = code / (steps * steps * steps * steps)};
            choice.redo_layers = code % steps;
            int rest = code / steps;
            for (int c = 0; c < problem->class_count; c++, rest /= steps)
                if (tier != TIER_DEVICE)
                    choice.layers[tier][problem->classes[c].op_class] = rest % steps;
            struct asked asked = ask(problem, &choice, tier);
            if (!asked.fits_tiers) continue;
            answers.least_lack_bytes = fmin(answers.least_lack_bytes, asked.lack_bytes);
            if (asked.lack_bytes <= 0) answers.least_s = fmin(answers.least_s, asked.added_s);
        }
    }
    return answers;
}

static enum tier tier_of(const struct keep_result *result)
{
    for (int c = 0; c < OFFLOAD_CLASS_MAX; c++)
        if (result->layers[TIER_NVME][c] > 0) return TIER_NVME;
    for (int c = 0; c < OFFLOAD_CLASS_MAX; c++)
        if (result->layers[TIER_HOST][c] > 0) return TIER_HOST;
    return TIER_DEVICE;
}

static void the_best_choice_equals_every_choice(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("keep", 99);
    const char *wanted = getenv("MESHWRIGHT_KEEP_CASES");
    int cases = wanted ? atoi(wanted) : 300, seen[3] = {0};
    for (int i = 0; i < cases; i++) {
        struct drawn drawn;
        draw_problem(&draw, &drawn);
        const struct keep_problem *problem = &drawn.problem;
        struct answers answers = every_choice(problem);
        struct milp_options options = {0};
        struct keep_result result = keep_solve(arena, problem, &options);
        struct asked asked = ask(problem, &result, tier_of(&result));
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

// Six layers, of which two micro-batches are alive, and copies that hide behind compute.
static struct keep_problem one_class(struct keep_class *class, struct keep_redo *redos,
                                     struct keep_stage *stage)
{
    *class = (struct keep_class){10 * MEGABYTE, 1};
    redos[0] = (struct keep_redo){.saved_bytes = {0, 10 * MEGABYTE}};
    redos[1] = (struct keep_redo){.seconds = 1e-3};
    *stage = (struct keep_stage){.layer_count = 6,
                                 .in_flight = 2,
                                 .other_bytes = 5 * MEGABYTE,
                                 .forward_s = 0.01,
                                 .backward_s = 0.02};
    return (struct keep_problem){.classes = class,
                                 .class_count = 1,
                                 .redos = redos,
                                 .redo_count = 2,
                                 .stages = stage,
                                 .stage_count = 1,
                                 .micro_batch_count = 4,
                                 .device_bytes = 106 * MEGABYTE,
                                 .host_bytes_per_s = 1e9,
                                 .host_bytes = 1000 * MEGABYTE,
                                 .tiers = 1 << TIER_DEVICE | 1 << TIER_HOST};
}

static void only_what_memory_needs_is_moved(void **state)
{
    struct keep_class class;
    struct keep_redo redos[2];
    struct keep_stage stage;
    struct keep_problem problem = one_class(&class, redos, &stage);
    struct milp_options options = {0};
    // 5 + 2 * 10 in transit + 2 * 10 a layer that is kept: 4 layers may be.
    struct keep_result result = keep_solve(*state, &problem, &options);
    assert_int_equal(result.status, MILP_OPTIMAL);
    assert_int_equal(result.layers[TIER_HOST][1], 2);
    assert_int_equal(result.redo_layers, 0);
    assert_true(result.added_s == 0);
    assert_true(result.moved_bytes == 20 * MEGABYTE && result.static_bytes == 60 * MEGABYTE);
    problem.device_bytes = 126 * MEGABYTE;
    result = keep_solve(*state, &problem, &options);
    assert_true(result.moved_bytes == 0 && result.added_s == 0);
}

static void a_slow_link_or_no_host_memory_means_to_redo(void **state)
{
    struct keep_class class;
    struct keep_redo redos[2];
    struct keep_stage stage;
    struct keep_problem problem = one_class(&class, redos, &stage);
    struct milp_options options = {0};
    for (int i = 0; i < 2; i++) {
        if (i == 0) problem.host_bytes_per_s = 100e6;
        if (i == 1) problem.host_bytes = MEGABYTE;
        struct keep_result result = keep_solve(*state, &problem, &options);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_int_equal(result.layers[TIER_HOST][1], 0);
        assert_int_equal(result.redo, 1);
        assert_int_equal(result.redo_layers, 1);
        assert_true(result.added_s == 1e-3);
    }
}

static void what_does_not_fit_says_what_is_lacking(void **state)
{
    struct keep_class class;
    struct keep_redo redos[2];
    struct keep_stage stage;
    struct keep_problem problem = one_class(&class, redos, &stage);
    problem.device_bytes = 4 * MEGABYTE;
    struct milp_options options = {0};
    struct keep_result result = keep_solve(*state, &problem, &options);
    assert_int_equal(result.status, MILP_INFEASIBLE);
    assert_in_range(result.shortfall_bytes, MEGABYTE, MEGABYTE + 1000);
}

static void chunks_waste_least(void **state)
{
    (void)state;
    static const int64_t TENSORS[] = {60, 40, 50, 50, 100, 30, 70};
    int64_t wasted = -1;
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 100, 150, 10, &wasted), 100);
    assert_int_equal(wasted, 0);
    // Chunks hold the largest tensor also where that is above the range.
    assert_int_equal(keep_chunk_bytes(TENSORS, 7, 32, 64, 32, NULL), 128);
    // One of 12 that is far above the others is no part of any chunk.
    static const int64_t OUTLIER[] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1000};
    assert_int_equal(keep_chunk_bytes(OUTLIER, 12, 8, 20, 4, &wasted), 8);
    assert_int_equal(wasted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_choice_equals_every_choice),
        cmocka_unit_test(only_what_memory_needs_is_moved),
        cmocka_unit_test(a_slow_link_or_no_host_memory_means_to_redo),
        cmocka_unit_test(what_does_not_fit_says_what_is_lacking),
        cmocka_unit_test(chunks_waste_least),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
