#include "memory/milp.h"

#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>

// Lines of GLPK as the log gets them.
struct lines {
    int count;
    bool has_break;
};

static void count_line(void *context, const char *line)
{
    struct lines *lines = context;
    lines->count++;
    if (strchr(line, '\n')) lines->has_break = true;
}

// A knapsack as a minimisation: most value within the weight.
static struct milp *knapsack(struct arena *arena, const int *values, const int *weights, int count,
                             int room)
{
    struct milp *milp = milp_new(arena, "knapsack");
    int row = milp_row(milp, -INFINITY, room);
    for (int i = 0; i < count; i++)
        milp_put(milp, row, milp_column(milp, MILP_BINARY, 0, 1, -values[i]), weights[i]);
    return milp;
}

static void a_knapsack_has_its_known_optimum(void **state)
{
    static const int VALUES[] = {60, 100, 120}, WEIGHTS[] = {10, 20, 30};
    struct milp *milp = knapsack(*state, VALUES, WEIGHTS, 3, 50);
    assert_int_equal(milp_column_count(milp), 3);
    assert_int_equal(milp_row_count(milp), 1);
    struct milp_options options = {0};
    struct milp_result result = milp_solve(milp, &options);
    assert_int_equal(result.status, MILP_OPTIMAL);
    assert_true(result.objective == -220 && result.bound == -220);
    assert_true(result.values[0] == 0 && result.values[1] == 1 && result.values[2] == 1);
}

// Between 0.25 and 2.75 lie 1 and 2, of them alone: binaries stay within 0 and 1 besides.
static void bounds_of_whole_numbers_are_whole(void **state)
{
    for (int most = 0; most < 2; most++) {
        for (int presolves = 0; presolves < 2; presolves++) {
            struct milp *milp = milp_new(*state, "bounds");
            double cost = most ? -1 : 1;
            (void)milp_column(milp, MILP_INTEGER, 0.25, 2.75, cost);
            (void)milp_column(milp, MILP_CONTINUOUS, 0.25, 2.75, cost);
            (void)milp_column(milp, MILP_BINARY, -3, 3, cost);
            struct milp_options options = {.no_presolve = presolves == 0};
            struct milp_result result = milp_solve(milp, &options);
            assert_int_equal(result.status, MILP_OPTIMAL);
            assert_true(result.values[0] == (most ? 2 : 1));
            assert_true(result.values[1] == (most ? 2.75 : 0.25));
            assert_true(result.values[2] == most);
            assert_true(fabs(result.objective - (most ? -5.75 : 1.25)) < 1e-9);
        }
    }
}

static void an_assignment_has_its_known_optimum(void **state)
{
    static const int COSTS[3][3] = {{4, 1, 3}, {2, 0, 5}, {3, 2, 2}};
    struct milp *milp = milp_new(*state, "assignment");
    int rows[6];
    for (int i = 0; i < 6; i++)
        rows[i] = milp_row(milp, 1, 1);
    for (int i = 0; i < 9; i++) {
        int column = milp_column(milp, MILP_BINARY, 0, 1, COSTS[i / 3][i % 3]);
        milp_put(milp, rows[i / 3], column, 1);
        milp_put(milp, rows[3 + i % 3], column, 1);
    }
    struct milp_options options = {.no_presolve = true};
    struct milp_result result = milp_solve(milp, &options);
    assert_int_equal(result.status, MILP_OPTIMAL);
    assert_true(result.objective == 5);
}

static void no_solution_is_proven(void **state)
{
    for (int no_presolve = 0; no_presolve < 2; no_presolve++) {
        struct milp *milp = milp_new(*state, "parity");
        int row = milp_row(milp, 3, 3);
        for (int i = 0; i < 4; i++)
            milp_put(milp, row, milp_column(milp, MILP_INTEGER, 0, 5, 1), 2);
        struct milp_options options = {.no_presolve = no_presolve};
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_INFEASIBLE);
        assert_null(result.values);
        assert_true(result.bound == INFINITY);
    }
}

static void bounds_that_cross_leave_no_solution(void **state)
{
    struct milp *milp = milp_new(*state, "crossed");
    milp_column(milp, MILP_INTEGER, 0.2, 0.8, 1);
    struct milp_options options = {0};
    assert_int_equal(milp_solve(milp, &options).status, MILP_INFEASIBLE);
}

static void an_unbounded_program_fails_and_says_so(void **state)
{
    for (int no_presolve = 0; no_presolve < 2; no_presolve++) {
        struct milp *milp = milp_new(*state, "cone");
        int row = milp_row(milp, 0, INFINITY);
        milp_put(milp, row, milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, -1), 1);
        milp_put(milp, row, milp_column(milp, MILP_INTEGER, 0, INFINITY, -1), 1);
        struct milp_options options = {.no_presolve = no_presolve};
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_FAILED);
        assert_non_null(strstr(result.message, "cone: the relaxation"));
        assert_true(result.bound == -INFINITY);
    }
}

static void nothing_below_the_cutoff_is_proven(void **state)
{
    static const int VALUES[] = {60, 100, 120}, WEIGHTS[] = {10, 20, 30};
    for (int no_presolve = 0; no_presolve < 2; no_presolve++) {
        struct milp *milp = knapsack(*state, VALUES, WEIGHTS, 3, 50);
        struct milp_options options = {.no_presolve = no_presolve, .has_cutoff = true};
        options.cutoff = -220;
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_INFEASIBLE);
        assert_true(result.bound == -220);
        options.cutoff = -219;
        result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true(result.objective == -220);
    }
}

// Market split (Cornuejols and Dawande 1998): branch and bound needs a long time for it.
static struct milp *market_split(struct arena *arena, double *start)
{
    enum { COLUMNS = 30, ROWS = 4 };
    struct draw draw = {7};
    struct milp *milp = milp_new(arena, "market split");
    for (int c = 0; c < COLUMNS; c++)
        milp_column(milp, MILP_BINARY, 0, 1, 0);
    for (int r = 0; r < ROWS; r++) {
        int sum = 0;
        int weights[COLUMNS];
        for (int c = 0; c < COLUMNS; c++)
            sum += weights[c] = draw_int(&draw, 0, 99);
        int row = milp_row(milp, sum / 2, sum / 2);
        for (int c = 0; c < COLUMNS; c++)
            milp_put(milp, row, c, weights[c]);
        milp_put(milp, row, milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, 1), 1);
        milp_put(milp, row, milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, 1), -1);
        start[COLUMNS + 2 * r] = sum / 2;
    }
    return milp;
}

static void a_tree_that_is_cut_short_gives_the_start_or_better(void **state)
{
    double start[38] = {0};
    double sum = 0;
    for (int limit = 0; limit < 4; limit++) {
        memset(start, 0, sizeof start);
        struct milp *milp = market_split(*state, start);
        sum = 0;
        for (int i = 0; i < 38; i++)
            sum += start[i];
        struct milp_options options = {.start = start, .no_presolve = limit % 2};
        if (limit < 2) options.node_cap = 20;
        if (limit >= 2) options.time_limit_s = 0.05;
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_FEASIBLE);
        assert_true(result.objective <= sum);
        assert_true(result.bound < result.objective && result.bound > -1e-6);
    }
}

static void a_start_that_is_optimal_is_returned_and_proven(void **state)
{
    static const int VALUES[] = {60, 100, 120}, WEIGHTS[] = {10, 20, 30};
    static const double START[] = {0, 1, 1};
    for (int no_presolve = 0; no_presolve < 2; no_presolve++) {
        struct milp *milp = knapsack(*state, VALUES, WEIGHTS, 3, 50);
        struct milp_options options = {.start = START, .no_presolve = no_presolve};
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true(result.objective == -220 && result.bound == -220);
        assert_true(result.values[0] == 0 && result.values[2] == 1);
    }
}

// GLPK ends the process when a matrix has two values at one place, unless its hook jumps away.
static void an_error_inside_glpk_is_an_answer_and_the_next_call_works(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct milp *milp = milp_new(*state, "twice");
        int row = milp_row(milp, 0, 1), column = milp_column(milp, MILP_BINARY, 0, 1, 1);
        milp_put(milp, row, column, 1);
        milp_put(milp, row, column, 2);
        struct lines lines = {0};
        struct milp_options options = {.log = count_line, .log_context = &lines};
        struct milp_result result = milp_solve(milp, &options);
        assert_int_equal(result.status, MILP_FAILED);
        assert_string_equal(
            result.message,
            "twice: glp_load_mat: ia[1] = 1; ja[1] = 1; duplicate indices not allowed");
        assert_null(result.values);
        assert_true(lines.count > 0);
        a_knapsack_has_its_known_optimum(state);
    }
}

static void messages_go_to_the_log_line_by_line(void **state)
{
    static const int VALUES[] = {60, 100, 120}, WEIGHTS[] = {10, 20, 30};
    struct milp *milp = knapsack(*state, VALUES, WEIGHTS, 3, 50);
    struct lines lines = {0};
    struct milp_options options = {.log = count_line, .log_context = &lines};
    milp_solve(milp, &options);
    assert_true(lines.count > 3);
    assert_false(lines.has_break);
}

enum { SMALL_COLUMNS = 5, SMALL_ROWS = 4 };

struct small {
    int column_count, row_count;
    int high[SMALL_COLUMNS], cost[SMALL_COLUMNS];
    int matrix[SMALL_ROWS][SMALL_COLUMNS], low[SMALL_ROWS], width[SMALL_ROWS];
};

static struct small small_draw(struct draw *draw)
{
    struct small small = {0};
    small.column_count = draw_int(draw, 1, SMALL_COLUMNS);
    small.row_count = draw_int(draw, 1, SMALL_ROWS);
    for (int c = 0; c < small.column_count; c++) {
        small.high[c] = draw_int(draw, 0, 3);
        small.cost[c] = draw_int(draw, -9, 9);
    }
    for (int r = 0; r < small.row_count; r++) {
        for (int c = 0; c < small.column_count; c++)
            small.matrix[r][c] = draw_int(draw, -6, 9);
        small.low[r] = draw_int(draw, -4, 12);
        small.width[r] = draw_int(draw, 0, 8);
    }
    return small;
}

static bool small_allows(const struct small *small, const int *values)
{
    for (int r = 0; r < small->row_count; r++) {
        int sum = 0;
        for (int c = 0; c < small->column_count; c++)
            sum += small->matrix[r][c] * values[c];
        if (sum < small->low[r] || sum > small->low[r] + small->width[r]) return false;
    }
    return true;
}

// The least cost over every point, or INFINITY; `worst` gets the costliest point that is allowed.
static double small_best(const struct small *small, double *worst)
{
    double best = INFINITY, most = -INFINITY;
    int values[SMALL_COLUMNS] = {0};
    for (;;) {
        double cost = 0;
        for (int c = 0; c < small->column_count; c++)
            cost += small->cost[c] * values[c];
        bool is_allowed = small_allows(small, values);
        if (is_allowed) best = fmin(best, cost);
        if (is_allowed && cost > most) {
            most = cost;
            for (int c = 0; c < small->column_count; c++)
                worst[c] = values[c];
        }
        int c = 0;
        while (c < small->column_count && values[c] == small->high[c])
            values[c++] = 0;
        if (c == small->column_count) return best;
        values[c]++;
    }
}

static struct milp *small_milp(struct arena *arena, const struct small *small)
{
    struct milp *milp = milp_new(arena, "small");
    for (int c = 0; c < small->column_count; c++)
        milp_column(milp, MILP_INTEGER, 0, small->high[c], small->cost[c]);
    for (int r = 0; r < small->row_count; r++) {
        milp_row(milp, small->low[r], small->low[r] + small->width[r]);
        for (int c = 0; c < small->column_count; c++)
            milp_put(milp, r, c, small->matrix[r][c]);
    }
    return milp;
}

static void random_programs_equal_brute_force(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("milp", 20261121);
    int solved = 0;
    for (int i = 0; i < 300; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct small small = small_draw(&draw);
        double worst[SMALL_COLUMNS];
        double best = small_best(&small, worst);
        solved += best < INFINITY;
        for (int way = 0; way < 8; way++) {
            struct milp_options options = {.no_presolve = way & 1, .no_cuts = way & 2};
            if (way & 4 && best < INFINITY) options.start = worst;
            struct milp *milp = small_milp(arena, &small);
            struct milp_result result = milp_solve(milp, &options);
            if (result.status == MILP_FAILED) printf("# way %d: %s\n", way, result.message);
            assert_int_equal(result.status, best < INFINITY ? MILP_OPTIMAL : MILP_INFEASIBLE);
            assert_true(result.objective == best);
            assert_true(fabs(result.bound - best) < 1e-5 || result.bound == best);
        }
        arena_reset(arena, mark);
    }
    assert_in_range(solved, 50, 250);
}

static void *solve_many(void *context)
{
    struct arena arena = {0};
    struct draw draw = {*(uint64_t *)context};
    int wrong = 0;
    for (int i = 0; i < 40; i++) {
        struct small small = small_draw(&draw);
        double worst[SMALL_COLUMNS];
        struct milp *milp = small_milp(&arena, &small);
        if (i % 5 == 0) milp_put(milp, 0, 0, 1), milp_put(milp, 0, 0, 1);
        struct milp_options options = {0};
        struct milp_result result = milp_solve(milp, &options);
        wrong += i % 5 == 0 ? result.status != MILP_FAILED
                            : result.objective != small_best(&small, worst);
    }
    arena_free(&arena);
    return wrong ? context : NULL;
}

static void threads_do_not_share_an_environment(void **state)
{
    (void)state;
    uint64_t seeds[4] = {1, 2, 3, 4};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, solve_many, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_whole_numbers_are_whole),
        cmocka_unit_test(a_knapsack_has_its_known_optimum),
        cmocka_unit_test(an_assignment_has_its_known_optimum),
        cmocka_unit_test(no_solution_is_proven),
        cmocka_unit_test(bounds_that_cross_leave_no_solution),
        cmocka_unit_test(an_unbounded_program_fails_and_says_so),
        cmocka_unit_test(nothing_below_the_cutoff_is_proven),
        cmocka_unit_test(a_tree_that_is_cut_short_gives_the_start_or_better),
        cmocka_unit_test(a_start_that_is_optimal_is_returned_and_proven),
        cmocka_unit_test(an_error_inside_glpk_is_an_answer_and_the_next_call_works),
        cmocka_unit_test(messages_go_to_the_log_line_by_line),
        cmocka_unit_test(random_programs_equal_brute_force),
        cmocka_unit_test(threads_do_not_share_an_environment),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
