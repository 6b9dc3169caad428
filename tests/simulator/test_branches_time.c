#include "simulator/closed_form.h"
#include "simulator/engine.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <math.h>

// Pipelines whose stages are a tree: by hand, and the two ways to time them against each other.

static double events_s(struct arena *arena, const struct step_price *price)
{
    struct arena scratch = {0};
    double step_s = simulate_step(arena, &scratch, price, &(struct engine_options){0})->cost.step_s;
    arena_free(&scratch);
    return step_s;
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-9 * wanted) return;
    print_error("found %.12g, wanted %.12g\n", found, wanted);
    fail();
}

// Two branches of two stages each, and one that they join: as long as a chain of three.
static const struct stage_tree TWIN = {(const int[]){1, 4, 3, 4, -1}, (const int[]){0, 0, 0, 1, 0},
                                       (const int[]){2, 1, 2, 1, 0},
                                       (const bool[]){false, false, true, true, false}};

static void branches_are_as_long_as_the_longest_way(void **state)
{
    static const enum schedule_kind KINDS[] = {SCHEDULE_1F1B, SCHEDULE_GPIPE};
    for (int k = 0; k < 2; k++) {
        for (int m = 1; m < 12; m++) {
            struct step_price *tree =
                even_plan(*state, KINDS[k], (struct schedule_shape){5, 1, m, 0, &TWIN}, 1e-3, 2e-3);
            struct step_price *chain =
                even_plan(*state, KINDS[k], (struct schedule_shape){5, 1, m, 0, NULL}, 1e-3, 2e-3);
            is_near(events_s(*state, tree), (m + 3 - 1) * 3e-3);
            is_near(closed_form(tree).step_s, (m + 3 - 1) * 3e-3);
            is_near(events_s(*state, chain), (m + 5 - 1) * 3e-3);
        }
    }
}

// One micro-batch: up with two hops, down likewise, and on the stage where they join one message
// after the other: what goes to the second branch leaves a hop later.
static void messages_to_branches_follow_each_other(void **state)
{
    for (int beside = 0; beside < 2; beside++) {
        struct step_price *price = even_plan(
            *state, SCHEDULE_1F1B, (struct schedule_shape){5, 1, 1, 0, &TWIN}, 1e-3, 2e-3);
        price->hop_s = 1e-4;
        price->hop_overlapped = beside;
        double wanted = 3 * 3e-3 + 2e-4 + 3e-4;
        is_near(events_s(*state, price), wanted);
        is_near(closed_form(price).step_s, wanted);
    }
}

static const struct stage_tree *random_tree(struct arena *arena, struct random *random, int stages)
{
    enum { FAR = 4, JOIN = 3 };
    int *next = ARENA_NEW(arena, int, stages), *first = ARENA_NEW(arena, int, stages);
    int *behind = ARENA_NEW(arena, int, stages), *joined = ARENA_NEW(arena, int, stages);
    next[stages - 1] = -1;
    for (int s = stages - 2; s >= 0; s--) {
        int most = s + FAR < stages - 1 ? s + FAR : stages - 1;
        do {
            next[s] = random_int(random, s + 1, most);
        } while (joined[next[s]] == JOIN && joined[s + 1] < JOIN);
        first[s] = joined[next[s]]++;
        behind[s] = behind[next[s]] + 1;
    }
    struct stage_tree *tree = ARENA_NEW(arena, struct stage_tree, 1);
    *tree = (struct stage_tree){next, first, behind, ARENA_NEW(arena, bool, stages)};
    return tree;
}

static void the_closed_form_agrees_with_the_events(void **state)
{
    static const enum schedule_kind KINDS[] = {SCHEDULE_1F1B, SCHEDULE_GPIPE, SCHEDULE_ZB_H1,
                                               SCHEDULE_ZB_H2, SCHEDULE_ZB_AUTO};
    enum { PLANS = 400, SEED = 20261128, KIND_COUNT = sizeof KINDS / sizeof *KINDS };
    struct random random = random_start(SEED);
    double sum = 0, worst = 0;
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(*state);
        struct step_price *price = random_plan(*state, &random, KINDS[i % KIND_COUNT]);
        price->shape.tree = random_tree(*state, &random, price->shape.stage_count);
        price->tie_count = 0;
        price->post_validated = false;
        double off = fabs(closed_form(price).step_s / events_s(*state, price) - 1);
        sum += off;
        worst = fmax(worst, off);
        arena_reset(*state, mark);
    }
    print_message("# mean %.3f %%, worst %.2f %%\n", 100 * sum / PLANS, 100 * worst);
    assert_true(sum / PLANS <= 0.01);
    assert_true(worst <= 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_as_long_as_the_longest_way),
        cmocka_unit_test(messages_to_branches_follow_each_other),
        cmocka_unit_test(the_closed_form_agrees_with_the_events),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
