#include "memory/order/order_relax.h"

#include "memory/formats.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

#include <limits.h>

// Seeds of each kind; more by hand with MESHWRIGHT_ORDER_SEEDS.
static int seed_count(void)
{
    const char *given = getenv("MESHWRIGHT_ORDER_SEEDS");
    return given ? atoi(given) : 400;
}

static struct order_relaxed relax(struct arena *arena, const struct memory_problem *problem,
                                  int slack_least, bool no_sides)
{
    struct arena scratch = {0};
    struct order_division *division = order_divide(arena, &scratch, problem, NULL, false, no_sides);
    struct order_relaxed relaxed = order_relax(arena, &scratch, division, slack_least);
    arena_free(&scratch);
    return relaxed;
}

// Layers forward, each with what backward reads: what the layer made, or something made of it (a
// transposition, a mask) that could be made as late as there. Sizes at random.
static struct memory_graph *draw_step(struct arena *arena, struct draw *draw, int layer_count)
{
    struct net net = {.arena = arena};
    int flow = net_tensor(&net, "x", draw_int(draw, 0, 9)), saved[64][2];
    for (int i = 0; i < layer_count; i++) {
        int made = net_tensor(&net, "y", draw_int(draw, 1, 20));
        net_operator(&net, "forward", &flow, 1, &made, 1);
        flow = made;
        saved[i][0] = saved[i][1] = made;
        for (int k = 0, hops = draw_int(draw, 0, 2); k < hops; k++) {
            int64_t least_bytes = draw_int(draw, 0, 3) ? net.tensors[saved[i][1]].bytes : 0;
            int next = net_tensor(&net, "aside", least_bytes + draw_int(draw, 0, 9));
            int reads[] = {saved[i][1], flow};
            bool reads_both = saved[i][1] != flow && draw_int(draw, 0, 3) == 0;
            net_operator(&net, "aside", reads, reads_both ? 2 : 1, &next, 1);
            saved[i][1] = next;
            net.tensors[next].kept = draw_int(draw, 0, 15) == 0;
        }
    }
    for (int i = layer_count - 1; i >= 0; i--) {
        int reads[] = {flow, saved[i][1], saved[i][0]};
        int made = net_tensor(&net, "dy", draw_int(draw, 1, 20)), count = saved[i][1] == flow;
        bool both = saved[i][0] != saved[i][1] && saved[i][0] != flow && draw_int(draw, 0, 2) == 0;
        count = count ? 1 : both ? 3 : 2;
        net_operator(&net, "backward", reads, count, &made, 1);
        flow = made;
    }
    return net_finish(&net, "step");
}

static const struct memory_problem *draw_problem(struct arena *arena, struct draw *draw, int kind,
                                                 int size)
{
    struct memory_graph *graph = NULL;
    if (kind == 0) return random_problem(arena, draw, size, 1);
    if (kind == 1) graph = graph_random(arena, draw, size);
    if (kind == 2) graph = graph_random_plain(arena, draw, size);
    if (kind == 3) graph = graph_layered(arena, draw, size, draw_int(draw, 1, 4));
    if (kind == 4) graph = draw_step(arena, draw, size / 4 + 1);
    return memory_problem_make(arena, graph, 1);
}

enum { KINDS = 5 };

static void what_operators_move_to_needs_them(const struct memory_problem *problem,
                                              const struct order_relaxed *relaxed)
{
    // Sets of operators that come after one, from the last on.
    uint64_t after[64] = {0};
    assert_true(problem->operator_count <= 64);
    for (int op = problem->operator_count - 1; op >= 0; op--) {
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++)
            after[op] |= UINT64_C(1) << problem->successors[s] | after[problem->successors[s]];
    }
    for (int op = 0; op < problem->operator_count; op++) {
        int anchor = relaxed->anchor[op];
        if (anchor < 0) continue;
        assert_true(after[op] >> anchor & 1);
        assert_int_equal(relaxed->anchor[anchor], -1);
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int next = problem->successors[s];
            if (relaxed->anchor[next] >= 0) next = relaxed->anchor[next];
            assert_true(next == anchor || after[anchor] >> next & 1);
        }
    }
}

static void moved_operators_never_raise_the_least_peak(void **state)
{
    (void)state;
    struct draw draw = draw_start("relaxed graphs", 31);
    int moved_count = 0;
    for (int i = 0; i < seed_count() * KINDS; i++) {
        struct arena arena = {0}, scratch = {0};
        const struct memory_problem *problem =
            draw_problem(&arena, &draw, i % KINDS, draw_int(&draw, 3, 11));
        struct order_relaxed relaxed =
            relax(&arena, problem, draw_int(&draw, 1, 4), draw_int(&draw, 0, 2));
        moved_count += relaxed.count;
        what_operators_move_to_needs_them(problem, &relaxed);
        assert_true(least_peak_bytes(&scratch, relaxed.problem) <=
                    least_peak_bytes(&scratch, problem));
        arena_free(&scratch);
        arena_free(&arena);
    }
    assert_true(moved_count > seed_count() / 4);
}

// Ready operators at random.
static int *draw_order(struct arena *arena, struct draw *draw, const struct memory_problem *problem)
{
    int count = problem->operator_count, ready_count = 0;
    int *order = ARENA_NEW(arena, int, count), *ready = ARENA_NEW(arena, int, count);
    int *waits = ARENA_NEW(arena, int, count);
    for (int op = 0; op < count; op++) {
        waits[op] = problem->first_predecessor[op + 1] - problem->first_predecessor[op];
        if (waits[op] == 0) ready[ready_count++] = op;
    }
    for (int at = 0; at < count; at++) {
        int i = draw_int(draw, 0, ready_count - 1), op = ready[i];
        order[at] = op;
        ready[i] = ready[--ready_count];
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int next = problem->successors[s];
            if (--waits[next] == 0) ready[ready_count++] = next;
        }
    }
    return order;
}

static int64_t *levels(struct arena *arena, const struct memory_problem *problem, const int *order)
{
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    memory_lifetimes(arena, problem, order, birth, death);
    int64_t *level_bytes = ARENA_NEW(arena, int64_t, problem->operator_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        for (int step = birth[b]; step < death[b]; step++)
            level_bytes[step] += problem->buffers[b].bytes;
    }
    return level_bytes;
}

static void no_step_of_any_order_holds_more(void **state)
{
    (void)state;
    struct draw draw = draw_start("relaxed orders", 32);
    int lower_count = 0;
    for (int i = 0; i < seed_count() * KINDS; i++) {
        struct arena arena = {0};
        const struct memory_problem *problem =
            draw_problem(&arena, &draw, i % KINDS, draw_int(&draw, 3, i % KINDS == 4 ? 60 : 30));
        struct order_relaxed relaxed =
            relax(&arena, problem, draw_int(&draw, 1, 9), draw_int(&draw, 0, 2));
        for (int k = 0; relaxed.count > 0 && k < 4; k++) {
            const int *order = draw_order(&arena, &draw, problem);
            const int64_t *before = levels(&arena, problem, order);
            const int64_t *after = levels(&arena, relaxed.problem, order);
            for (int step = 0; step < problem->operator_count; step++) {
                assert_true(after[step] <= before[step]);
                lower_count += after[step] < before[step];
            }
        }
        arena_free(&arena);
    }
    assert_true(lower_count > 0);
}

static void assert_is_order(struct arena *scratch, const struct memory_problem *problem,
                            const int *order)
{
    bool *is_there = ARENA_NEW(scratch, bool, problem->operator_count);
    for (int step = 0; step < problem->operator_count; step++) {
        int op = order[step];
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++)
            assert_true(is_there[problem->predecessors[p]]);
        assert_false(is_there[op]);
        is_there[op] = true;
    }
}

static void orders_with_moved_operators_are_as_low_as_any(void **state)
{
    (void)state;
    struct draw draw = draw_start("orders of relaxed graphs", 33);
    for (int i = 0; i < seed_count() * KINDS; i++) {
        struct arena arena = {0}, scratch = {0};
        const struct memory_problem *problem =
            draw_problem(&arena, &draw, i % KINDS, draw_int(&draw, 3, 11));
        int64_t best_bytes = least_peak_bytes(&scratch, problem);
        struct order_options options = {.slack_least = draw_int(&draw, 1, 4),
                                        .no_update_branches = draw_int(&draw, 0, 2)};
        if (draw_int(&draw, 0, 3) == 0) options.state_cap = 10;
        struct order_result result = order_solve(&arena, &scratch, problem, &options);
        assert_is_order(&scratch, problem, result.order);
        assert_true(result.bound_bytes <= best_bytes && best_bytes <= result.peak_bytes);
        arena_free(&scratch);
        arena_free(&arena);
    }
}

enum { LAYERS = 24, BRANCHES = 3 };

// Blocks of branches that meet again, and back: each gradient reads a transposition of what its
// block was given, which is all that stands between a row of small segments and a graph without
// cuts.
static struct memory_graph *transposing(struct arena *arena, int64_t aside_bytes)
{
    struct net net = {.arena = arena};
    int flow = net_tensor(&net, "x", 100), aside[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        int branch[BRANCHES], made = net_tensor(&net, "x", 100);
        aside[i] = net_tensor(&net, "transposed", aside_bytes);
        net_operator(&net, "transpose", &flow, 1, &aside[i], 1);
        for (int k = 0; k < BRANCHES; k++) {
            branch[k] = net_tensor(&net, "branch", 50 + 7 * k);
            net_operator(&net, "forward", &flow, 1, &branch[k], 1);
        }
        net_operator(&net, "join", branch, BRANCHES, &made, 1);
        flow = made;
    }
    for (int i = LAYERS - 1; i >= 0; i--) {
        int reads[] = {flow, aside[i]}, branch[BRANCHES];
        int product = net_tensor(&net, "product", 100), made = net_tensor(&net, "dx", 100);
        net_operator(&net, "backward", reads, 2, &product, 1);
        for (int k = 0; k < BRANCHES; k++) {
            branch[k] = net_tensor(&net, "dbranch", 50 + 7 * k);
            net_operator(&net, "backward", &product, 1, &branch[k], 1);
        }
        net_operator(&net, "join", branch, BRANCHES, &made, 1);
        flow = made;
    }
    return net_finish(&net, "transposing");
}

static void transpositions_that_only_backward_reads_hide_no_cut(void **state)
{
    struct arena *arena = *state, scratch = {0};
    const struct memory_problem *problem = memory_problem_make(arena, transposing(arena, 100), 1);
    struct order_options options = {0}, unmoved = {.slack_least = INT_MAX};
    struct order_result result = order_solve(arena, &scratch, problem, &options);
    struct order_result other = order_solve(arena, &scratch, problem, &unmoved);
    assert_true(result.segment_count > 2 * other.segment_count);
    assert_int_equal(other.peak_bytes, result.peak_bytes);
    assert_true(2 * result.state_count < other.state_count);
    arena_free(&scratch);
}

// What an operator moves to may itself go with another since it waits for nothing.
static void operators_move_on_with_what_they_moved_to(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct net net = {.arena = arena};
    int made[6] = {0};
    for (int i = 0; i < 6; i++) {
        // A chain of three, one beside it, and what reads both.
        int reads[] = {made[i - (i > 0)], made[2]};
        int count = i == 4 ? 2 : i != 0 && i != 3;
        made[i] = net_tensor(&net, "t", i < 4 ? 1 : 3 * i - 10);
        net_operator(&net, "op", reads, count, &made[i], 1);
    }
    const struct memory_problem *problem = memory_problem_make(arena, net_finish(&net, "on"), 1);
    struct order_relaxed relaxed = relax(arena, problem, 2, true);
    assert_int_equal(relaxed.count, 1);
    assert_int_equal(relaxed.anchor[3], 4);
    struct order_division *division =
        order_divide(arena, &scratch, problem, relaxed.anchor, false, true);
    assert_int_equal(division->unit[3], division->unit[5]);
    assert_int_equal(division->first_operator[division->unit_count], 6);
    struct order_options options = {.slack_least = 2, .no_update_branches = true};
    struct order_result result = order_solve(arena, &scratch, problem, &options);
    assert_is_order(&scratch, problem, result.order);
    assert_int_equal(result.peak_bytes, least_peak_bytes(&scratch, problem));
    arena_free(&scratch);
}

// An operator without bytes stays where it is; one that it waits for does not go past it.
static void operators_do_not_move_past_one_that_makes_nothing(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct net net = {.arena = arena};
    int chain = net_tensor(&net, "x", 5), aside = net_tensor(&net, "aside", 7);
    net_operator(&net, "aside", NULL, 0, &aside, 1);
    int after[] = {0, 1}, empty = net_operator(&net, "empty", NULL, 0, NULL, 0);
    net.operators[empty].after = &after[0], net.operators[empty].after_count = 1;
    for (int i = 0; i < 6; i++) {
        int next = net_tensor(&net, "x", 5), reads[] = {chain, aside};
        int op = net_operator(&net, "op", reads, i == 5 ? 2 : 1, &next, 1);
        if (i == 4) net.operators[op].after = &after[1], net.operators[op].after_count = 1;
        chain = next;
    }
    const struct memory_problem *problem = memory_problem_make(arena, net_finish(&net, "past"), 1);
    struct order_relaxed relaxed = relax(arena, problem, 2, true);
    struct order_options options = {.slack_least = 2, .no_update_branches = true};
    struct order_result result = order_solve(arena, &scratch, problem, &options);
    assert_is_order(&scratch, problem, result.order);
    assert_int_equal(relaxed.anchor[empty], -1);
    assert_int_equal(result.peak_bytes, least_peak_bytes(&scratch, problem));
    arena_free(&scratch);
}

// An operator that makes less than it reads should run early: a relaxation may not move it.
static void operators_that_make_less_than_they_read_stay(void **state)
{
    struct arena *arena = *state;
    const struct memory_problem *problem = memory_problem_make(arena, transposing(arena, 99), 1);
    assert_int_equal(relax(arena, problem, 16, false).count, 0);
    problem = memory_problem_make(arena, transposing(arena, 100), 1);
    assert_true(relax(arena, problem, 16, false).count > LAYERS / 2);
}

// Operator graphs of BERT (msr-fiddle/dnn-partitioning), which have one cut in a hundred operators
// as they are.
static void wide_graphs_of_others_are_solved_within_a_thousandth(void **state)
{
    struct arena *arena = *state;
    static const char *const NAMES[] = {"l-3", "l-6"};
    const char *given = getenv("MESHWRIGHT_GRAPHS");
    for (int i = 0; i < 2; i++) {
        struct arena scratch = {0};
        struct err err = {0};
        const char *path =
            arena_print(arena, "%s/dnn-partitioning/OperatorGraphs_bert_%s_training.json",
                        given ? given : "../shared/graphs", NAMES[i]);
        struct memory_graph *graph = memory_graph_load(arena, path, &err);
        if (!graph) {
            printf("# skipped: %s\n", err.text);
            continue;
        }
        const struct memory_problem *problem = memory_problem_make(arena, graph, 512);
        struct order_options options = {0};
        struct order_result result = order_solve(arena, &scratch, problem, &options);
        assert_true(result.segment_count > 100);
        assert_true((double)result.peak_bytes <= 1.001 * (double)result.bound_bytes);
        arena_free(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_operators_never_raise_the_least_peak),
        cmocka_unit_test(no_step_of_any_order_holds_more),
        cmocka_unit_test(orders_with_moved_operators_are_as_low_as_any),
        cmocka_unit_test(transpositions_that_only_backward_reads_hide_no_cut),
        cmocka_unit_test(operators_move_on_with_what_they_moved_to),
        cmocka_unit_test(operators_do_not_move_past_one_that_makes_nothing),
        cmocka_unit_test(operators_that_make_less_than_they_read_stay),
        cmocka_unit_test(wide_graphs_of_others_are_solved_within_a_thousandth),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
