#include "planner/strategy/dual.h"
#include "planner/strategy/round.h"
#include "planner/strategy/solve.h"

#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { NODES_MOST = 6, CHOICES_MOST = 4, TIMES = 8 };

// A drawn problem and the same as text: what the oracle counts is not what the reader read.
struct drawn {
    int nodes, edges;
    int choices[NODES_MOST], birth[NODES_MOST], death[NODES_MOST];
    int64_t cost[NODES_MOST][CHOICES_MOST], usage[NODES_MOST][CHOICES_MOST];
    int ends[2 * NODES_MOST][2];
    int64_t edge_cost[2 * NODES_MOST][CHOICES_MOST][CHOICES_MOST];
    int64_t limit;
    bool has_limit;
};

static int64_t draw_cost(struct draw *draw, int forbidden_percent)
{
    return draw_int(draw, 1, 100) <= forbidden_percent ? STRATEGY_FORBIDDEN : draw_int(draw, 0, 30);
}

static void draw_problem(struct draw *draw, struct drawn *drawn)
{
    int forbidden_percent = draw_int(draw, 0, 2) * 15;
    drawn->nodes = draw_int(draw, 1, NODES_MOST);
    drawn->edges = draw_int(draw, 0, 2 * drawn->nodes);
    drawn->has_limit = draw_int(draw, 0, 4) > 0;
    drawn->limit = draw_int(draw, 0, 20);
    for (int i = 0; i < drawn->nodes; i++) {
        drawn->choices[i] = draw_int(draw, 1, CHOICES_MOST);
        drawn->birth[i] = draw_int(draw, 0, TIMES);
        drawn->death[i] = draw_int(draw, drawn->birth[i], TIMES);
        for (int k = 0; k < drawn->choices[i]; k++) {
            drawn->cost[i][k] = draw_cost(draw, 3);
            drawn->usage[i][k] = draw_int(draw, 0, 8);
        }
    }
    for (int e = 0; e < drawn->edges; e++) {
        for (int side = 0; side < 2; side++)
            drawn->ends[e][side] = draw_int(draw, 0, drawn->nodes - 1);
        bool is_bond = draw_int(draw, 0, 3) == 0;  // equal choices alone
        for (int x = 0; x < CHOICES_MOST; x++)
            for (int y = 0; y < CHOICES_MOST; y++)
                drawn->edge_cost[e][x][y] = is_bond ? (x == y ? 1 : STRATEGY_FORBIDDEN)
                                                    : draw_cost(draw, forbidden_percent);
    }
}

struct lines {
    struct arena *arena;
    const char *text;
};

static void put(struct lines *lines, const char *before, int64_t value)
{
    lines->text = arena_print(lines->arena, "%s%s%lld", lines->text, before, (long long)value);
}

static void put_lists(struct lines *lines, const struct drawn *drawn, const char *key,
                      const int64_t values[][CHOICES_MOST])
{
    lines->text = arena_print(lines->arena, "%s, \"%s\": [", lines->text, key);
    for (int i = 0; i < drawn->nodes; i++) {
        for (int k = 0; k < drawn->choices[i]; k++)
            put(lines, k ? ", " : i ? "], [" : "[", values[i][k]);
    }
    lines->text = arena_print(lines->arena, "%s]]", lines->text);
}

static const char *text_of(struct arena *arena, const struct drawn *drawn)
{
    struct lines lines = {arena, "{\"problem\": {\"nodes\": {\"intervals\": ["};
    for (int i = 0; i < drawn->nodes; i++) {
        put(&lines, i ? ", [" : "[", drawn->birth[i]);
        put(&lines, ", ", drawn->death[i]);
        lines.text = arena_print(arena, "%s]", lines.text);
    }
    lines.text = arena_print(arena, "%s]", lines.text);
    put_lists(&lines, drawn, "costs", drawn->cost);
    put_lists(&lines, drawn, "usages", drawn->usage);
    lines.text = arena_print(arena, "%s}, \"edges\": {\"nodes\": [", lines.text);
    for (int e = 0; e < drawn->edges; e++) {
        put(&lines, e ? ", [" : "[", drawn->ends[e][0]);
        put(&lines, ", ", drawn->ends[e][1]);
        lines.text = arena_print(arena, "%s]", lines.text);
    }
    lines.text = arena_print(arena, "%s], \"costs\": [", lines.text);
    for (int e = 0; e < drawn->edges; e++) {
        lines.text = arena_print(arena, "%s%s[", lines.text, e ? ", " : "");
        for (int x = 0; x < drawn->choices[drawn->ends[e][0]]; x++)
            for (int y = 0; y < drawn->choices[drawn->ends[e][1]]; y++)
                put(&lines, x || y ? ", " : "", drawn->edge_cost[e][x][y]);
        lines.text = arena_print(arena, "%s]", lines.text);
    }
    lines.text = arena_print(arena, "%s]}", lines.text);
    if (drawn->has_limit) put(&lines, ", \"usage_limit\": ", drawn->limit);
    return arena_print(arena, "%s}}", lines.text);
}

// -1: forbidden, or above the limit.
static int64_t cost_of(const struct drawn *drawn, const int *choice)
{
    int64_t sum = 0;
    for (int i = 0; i < drawn->nodes; i++) {
        if (drawn->cost[i][choice[i]] >= STRATEGY_FORBIDDEN) return -1;
        sum += drawn->cost[i][choice[i]];
    }
    for (int e = 0; e < drawn->edges; e++) {
        int64_t cost = drawn->edge_cost[e][choice[drawn->ends[e][0]]][choice[drawn->ends[e][1]]];
        if (cost >= STRATEGY_FORBIDDEN) return -1;
        sum += cost;
    }
    for (int t = 0; t < TIMES && drawn->has_limit; t++) {
        int64_t used = 0;
        for (int i = 0; i < drawn->nodes; i++)
            if (drawn->birth[i] <= t && t < drawn->death[i]) used += drawn->usage[i][choice[i]];
        if (used > drawn->limit) return -1;
    }
    return sum;
}

static int64_t least_of(const struct drawn *drawn)
{
    int choice[NODES_MOST] = {0};
    int64_t least = -1;
    for (;;) {
        int64_t cost = cost_of(drawn, choice);
        if (cost >= 0 && (least < 0 || cost < least)) least = cost;
        int i = 0;
        while (i < drawn->nodes && ++choice[i] == drawn->choices[i])
            choice[i++] = 0;
        if (i == drawn->nodes) return least;
    }
}

static void small_problems_are_solved_as_by_trying_all(void **state)
{
    enum { CASES = 400 };
    (void)state;
    struct draw draw = draw_start("strategy problems", 20250330);
    int proven = 0, solved = 0;
    for (int i = 0; i < CASES; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct drawn *drawn = ARENA_NEW(&arena, struct drawn, 1);
        struct strategy_problem problem;
        draw_problem(&draw, drawn);
        const char *text = text_of(&arena, drawn);
        assert_true(strategy_problem_parse(&arena, "drawn", text, strlen(text), &problem, &err));
        struct strategy_options options = {.time_limit_s = 0.005, .seed = 7};
        struct strategy_answer answer = strategy_solve(&arena, &problem, &options);
        int64_t least = least_of(drawn);
        if (least < 0) {
            assert_null(answer.choice);
        } else {
            assert_false(answer.is_impossible);
            assert_non_null(answer.choice);
            assert_int_equal(cost_of(drawn, answer.choice), answer.value.cost);
            assert_int_equal(answer.value.cost, least);
            assert_true(answer.bound <= least);
            solved++;
            proven += answer.bound == least;
        }
        arena_free(&arena);
    }
    // Bounds are no formality: most meet the optimum.
    assert_true(solved > CASES / 4);
    assert_true(proven > solved / 2);
}

// Some choices cost up to a million million: beside them GLPK sees small differences no more, and
// what it calls the optimum is not. No bound may say more than holds, and few answers are not best.
static void dear_choices_do_not_drown_small_differences(void **state)
{
    enum { CASES = 300 };
    (void)state;
    struct draw draw = draw_start("strategy problems of far costs", 20261129);
    int best = 0, solved = 0;
    for (int i = 0; i < CASES; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct drawn *drawn = ARENA_NEW(&arena, struct drawn, 1);
        struct strategy_problem problem;
        draw_problem(&draw, drawn);
        for (int n = 0; n < drawn->nodes; n++)
            for (int k = 0; k < drawn->choices[n]; k++)
                if (draw_int(&draw, 0, 2) == 0 && drawn->cost[n][k] < STRATEGY_FORBIDDEN)
                    drawn->cost[n][k] *= 30000000000 + draw_int(&draw, 0, 1000);
        const char *text = text_of(&arena, drawn);
        assert_true(strategy_problem_parse(&arena, "drawn", text, strlen(text), &problem, &err));
        struct strategy_options options = {.time_limit_s = 0.005, .seed = 7};
        struct strategy_answer answer = strategy_solve(&arena, &problem, &options);
        int64_t least = least_of(drawn);
        if (least >= 0) {
            assert_non_null(answer.choice);
            assert_int_equal(cost_of(drawn, answer.choice), answer.value.cost);
            assert_true((double)(answer.value.cost - least) <= 1e-6 * (double)least);
            assert_true(answer.bound <= least);
            solved++;
            best += answer.value.cost == least;
        }
        arena_free(&arena);
    }
    assert_true(solved > CASES / 4);
    assert_true(best >= solved - CASES / 50);
}

static const char EXAMPLE[] =
    "{\"problem\": {\"name\": \"example\", \"nodes\": {"
    "\"intervals\": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],"
    "\"costs\": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],"
    "\"usages\": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]},"
    "\"edges\": {\"nodes\": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],"
    "\"costs\": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]]},"
    "\"usage_limit\": 50}}";

// The contest's own example: 445 with 50 of 50, by hand. Its second strategy of node 2 would be
// cheaper (15 + 55 + 45 + 75 + 95 + 30 + 10 + 10 + 20 + 60 = 415) but uses 55.
static void the_example_of_the_contest_costs_445(void **state)
{
    struct err err = {0};
    struct strategy_problem problem;
    assert_true(
        strategy_problem_parse(*state, "example", EXAMPLE, strlen(EXAMPLE), &problem, &err));
    struct strategy_options options = {.time_limit_s = 1, .seed = 1};
    struct strategy_answer answer = strategy_solve(*state, &problem, &options);
    assert_int_equal(answer.value.cost, 445);
    assert_int_equal(answer.bound, 445);
    assert_int_equal(answer.value.peak, 50);
    assert_false(answer.is_cut);
    static const int CHEAPER[] = {0, 0, 1, 1, 0};
    struct strategy_value value = strategy_problem_value(*state, &problem, CHEAPER);
    assert_int_equal(value.cost, 415);
    assert_int_equal(value.peak, 55);
    assert_false(value.is_valid);
}

// Every bound holds at any prices and after any number of sweeps, not only at the last.
static void every_sweep_bounds_the_optimum(void **state)
{
    enum { CASES = 60, SWEEPS = 5 };
    (void)state;
    struct draw draw = draw_start("bounds", 77);
    for (int i = 0; i < CASES; i++) {
        struct arena arena = {0}, scratch = {0};
        struct err err = {0};
        struct drawn *drawn = ARENA_NEW(&arena, struct drawn, 1);
        struct strategy_problem problem;
        draw_problem(&draw, drawn);
        const char *text = text_of(&arena, drawn);
        int64_t least = least_of(drawn);
        assert_true(strategy_problem_parse(&arena, "drawn", text, strlen(text), &problem, &err));
        const struct reduced *reduced = reduced_make(&arena, &problem);
        const struct choice_model *model = model_make(&arena, reduced);
        struct dual *dual = dual_new(&arena, model);
        double *prices = ARENA_NEW(&arena, double, model->point_count);
        for (int sweep = 0; sweep < SWEEPS && least >= 0; sweep++) {
            for (int t = 0; t < model->point_count; t++)
                prices[t] = draw_int(&draw, 0, 40) / 8.0;
            dual_set_prices(dual, &scratch, prices);
            dual_sweep(dual, sweep % 2 == 0, NULL);
            double whole = (double)dual_certified(dual, &scratch);
            assert_true(whole + reduced->fixed_cost <= (double)least);
            assert_true(whole >= dual->bound - 1e-6);
            assert_true(whole <= dual->bound + 1 + 1e-6);
        }
        arena_free(&arena);
        arena_free(&scratch);
    }
}

static void equal_limits_give_equal_answers(void **state)
{
    struct draw draw = draw_start("the same twice", 5);
    struct drawn *drawn = ARENA_NEW(*state, struct drawn, 1);
    struct strategy_problem problem;
    struct err err = {0};
    do {
        draw_problem(&draw, drawn);
    } while (drawn->nodes < NODES_MOST || least_of(drawn) < 0);
    const char *text = text_of(*state, drawn);
    assert_true(strategy_problem_parse(*state, "drawn", text, strlen(text), &problem, &err));
    struct strategy_options options = {.time_limit_s = 0.01, .seed = 3};
    struct strategy_answer first = strategy_solve(*state, &problem, &options);
    struct strategy_answer second = strategy_solve(*state, &problem, &options);
    assert_int_equal(first.bound, second.bound);
    assert_memory_equal(first.choice, second.choice, (size_t)problem.node_count * sizeof(int));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_contest_costs_445),
        cmocka_unit_test(small_problems_are_solved_as_by_trying_all),
        cmocka_unit_test(dear_choices_do_not_drown_small_differences),
        cmocka_unit_test(every_sweep_bounds_the_optimum),
        cmocka_unit_test(equal_limits_give_equal_answers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
