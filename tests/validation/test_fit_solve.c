#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "validation/fit_solve.h"

#include <math.h>

// Steps that are sums: work of each parameter, plus work that none of them changes.
enum { PARAMETERS = 4, ROWS = 60 };
static const double SPREAD[PARAMETERS] = {0.1, 0.2, 0.3, 0.1};

struct sums {
    double work_s[ROWS][PARAMETERS], fixed_s[ROWS];
    double measured_ln[ROWS], weight[ROWS];
    int predicted_count;
};

static double sum_ln(const struct sums *sums, int row, const double *z)
{
    double sum_s = sums->fixed_s[row];
    for (int i = 0; i < PARAMETERS; i++) {
        sum_s += sums->work_s[row][i] * exp(SPREAD[i] * z[i]);
    }
    return log(sum_s);
}

static void predict(void *context, const double *z, const bool *wanted, double *ln)
{
    struct sums *sums = context;
    for (int row = 0; row < ROWS; row++) {
        if (!wanted[row]) continue;
        ln[row] = sum_ln(sums, row, z);
        sums->predicted_count++;
    }
}

static bool depends(void *context, int row, int parameter)
{
    const struct sums *sums = context;
    return sums->work_s[row][parameter] > 0;
}

// The last parameter is in no row. Measured steps are those at `z`.
static struct sums *sums_new(struct arena *arena, const double *z)
{
    struct sums *sums = ARENA_NEW(arena, struct sums, 1);
    struct draw draw = draw_start("steps", 20261121);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < PARAMETERS - 1; i++) {
            sums->work_s[row][i] = draw_int(&draw, 0, 3) * draw_int(&draw, 1, 100) / 100.0;
        }
        sums->fixed_s[row] = draw_int(&draw, 1, 50) / 100.0;
        sums->measured_ln[row] = sum_ln(sums, row, z);
        sums->weight[row] = 1;
    }
    return sums;
}

static struct fit_problem problem_of(struct sums *sums)
{
    return (struct fit_problem){
        .row_count = ROWS,
        .parameter_count = PARAMETERS,
        .measured_ln = sums->measured_ln,
        .weight = sums->weight,
        .sigma = 0.01,
        .huber_delta = 2,
        .predict = predict,
        .approximate = predict,
        .depends = depends,
        .context = sums,
    };
}

static struct fit_point solve(struct arena *arena, const struct fit_problem *problem)
{
    struct fit_point point = fit_start(arena, problem);
    fit_solve(arena, problem, &point);
    assert_true(point.converged);
    return point;
}

static const double TRUE_Z[PARAMETERS] = {1.5, -2, 0.7, 3};

static void shifted_constants_come_back(void **state)
{
    struct sums *sums = sums_new(*state, TRUE_Z);
    struct fit_problem problem = problem_of(sums);
    struct fit_point point = solve(*state, &problem);
    for (int i = 0; i < PARAMETERS - 1; i++) {
        assert_true(fabs(point.z[i] - TRUE_Z[i]) < 0.05);
        assert_true(fit_row_count(&problem, &point, i) > ROWS / 2);
    }
    assert_true(fabs(point.z[PARAMETERS - 1]) < 1e-12);
    assert_int_equal(fit_row_count(&problem, &point, PARAMETERS - 1), 0);
}

// One row, one parameter that scales all of it: the minimum of a parabola, by hand. A prior of one
// spread s against an error of sigma: z = d s / (s^2 + sigma^2) for a row that is d too slow.
static void prior_and_row_share_the_distance_as_their_variances_say(void **state)
{
    const double zero[PARAMETERS] = {0};
    struct sums *sums = sums_new(*state, zero);
    for (int row = 0; row < ROWS; row++) {
        sums->weight[row] = row == 0;
        for (int i = 0; i < PARAMETERS; i++) {
            sums->work_s[row][i] = i == 0;
        }
        sums->fixed_s[row] = 0;
        sums->measured_ln[row] = 0.05;
    }
    struct fit_problem problem = problem_of(sums);
    problem.sigma = 0.05;
    struct fit_point point = solve(*state, &problem);
    assert_true(fabs(point.z[0] - 0.05 * 0.1 / (0.1 * 0.1 + 0.05 * 0.05)) < 2e-3);
}

// Every tenth row measured at twice its step moves the estimate by no more than a tenth of a
// spread; without Huber's bend it moves by more than a spread.
static void rows_far_off_do_not_pull_the_constants_along(void **state)
{
    struct sums *sums = sums_new(*state, TRUE_Z);
    for (int row = 0; row < ROWS; row += 10) {
        sums->measured_ln[row] += log(2);
    }
    struct fit_problem problem = problem_of(sums);
    struct fit_point robust = solve(*state, &problem);
    problem.huber_delta = 1e9;
    struct fit_point square = solve(*state, &problem);
    double robust_off = 0, square_off = 0;
    for (int i = 0; i < PARAMETERS - 1; i++) {
        robust_off = fmax(robust_off, fabs(robust.z[i] - TRUE_Z[i]));
        square_off = fmax(square_off, fabs(square.z[i] - TRUE_Z[i]));
    }
    assert_true(robust_off < 0.1);
    assert_true(square_off > 1);
}

// Leaving rows out from where all of them led ends where a fit without them ends.
static void leaving_rows_out_equals_a_fit_from_scratch(void **state)
{
    struct sums *sums = sums_new(*state, TRUE_Z);
    struct draw draw = draw_start("noise", 7);
    for (int row = 0; row < ROWS; row++) {
        sums->measured_ln[row] += draw_int(&draw, -100, 100) / 1000.0;
    }
    struct fit_problem problem = problem_of(sums);
    problem.sigma = 0.05;
    struct fit_point all = solve(*state, &problem);
    for (int first = 0; first < ROWS; first += 12) {
        for (int row = 0; row < ROWS; row++) {
            sums->weight[row] = row < first || row >= first + 12;
        }
        struct fit_point left_out = fit_point_copy(*state, &problem, &all);
        fit_solve(*state, &problem, &left_out);
        struct fit_point scratch = solve(*state, &problem);
        assert_true(left_out.converged);
        for (int i = 0; i < PARAMETERS; i++) {
            assert_true(fabs(left_out.z[i] - scratch.z[i]) < 5e-3);
        }
        for (int row = 0; row < ROWS; row++) {
            assert_true(fabs(left_out.ln[row] - scratch.ln[row]) < 1e-3);
            assert_true(left_out.ln[row] == sum_ln(sums, row, left_out.z));
        }
    }
}

// Two constants of one silicon: the one that rows know takes the other along, as far as the tie
// says; with a wide tie it stays.
static void a_tie_takes_a_constant_along(void **state)
{
    struct sums *sums = sums_new(*state, TRUE_Z);
    struct fit_problem problem = problem_of(sums);
    struct fit_tie tie = {0, PARAMETERS - 1, SPREAD[0], SPREAD[PARAMETERS - 1], 0.001};
    problem.ties = &tie;
    problem.tie_count = 1;
    struct fit_point point = solve(*state, &problem);
    assert_true(fabs(point.z[PARAMETERS - 1] - point.z[0]) < 0.01);
    assert_true(point.z[0] > 1.3);
    tie.spread = 100;
    point = solve(*state, &problem);
    assert_true(fabs(point.z[PARAMETERS - 1]) < 0.01);
}

static void the_same_problem_gives_the_same_bits(void **state)
{
    struct fit_problem first = problem_of(sums_new(*state, TRUE_Z));
    struct fit_problem second = problem_of(sums_new(*state, TRUE_Z));
    struct fit_point a = solve(*state, &first), b = solve(*state, &second);
    assert_memory_equal(a.z, b.z, sizeof(double) * PARAMETERS);
    assert_memory_equal(a.ln, b.ln, sizeof(double) * ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifted_constants_come_back),
        cmocka_unit_test(prior_and_row_share_the_distance_as_their_variances_say),
        cmocka_unit_test(rows_far_off_do_not_pull_the_constants_along),
        cmocka_unit_test(leaving_rows_out_equals_a_fit_from_scratch),
        cmocka_unit_test(a_tie_takes_a_constant_along),
        cmocka_unit_test(the_same_problem_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
