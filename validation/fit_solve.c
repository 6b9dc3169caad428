#include "validation/fit_solve.h"
#include "validation/cholesky.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A difference of this many spreads is far above the nanosecond that simulated times are rounded
// to, and far below where a prediction bends.
static const double DIFFERENCE = 0.01;
// Derivatives are taken again where a parameter has moved this far from where they were taken; at
// the end much less may be left, or the point would be the minimum of another function.
static const double MOVED_MOST = 0.5, MOVED_MOST_AT_END = 0.05;
// Steps of more than this many spreads are shortened: the derivatives do not reach farther.
static const double STEP_MOST = 1;
static const double DAMPING_START = 1e-3, DAMPING_MOST = 1e6;
enum { STEP_COUNT_MOST = 100 };

static double row_residual(const struct fit_problem *problem, const double *ln, int row)
{
    return (ln[row] - problem->measured_ln[row]) / problem->sigma;
}

static double tie_residual(const struct fit_tie *tie, const double *z)
{
    return (tie->a_scale * z[tie->a] - tie->b_scale * z[tie->b]) / tie->spread;
}

static double objective(const struct fit_problem *problem, const double *z, const double *ln)
{
    double sum = 0, delta = problem->huber_delta;
    for (int row = 0; row < problem->row_count; row++) {
        if (problem->weight[row] == 0) continue;
        double size = fabs(row_residual(problem, ln, row));
        double loss = size <= delta ? size * size / 2 : delta * (size - delta / 2);
        sum += problem->weight[row] * loss;
    }
    for (int i = 0; i < problem->parameter_count; i++) {
        sum += z[i] * z[i] / 2;
    }
    for (int i = 0; i < problem->tie_count; i++) {
        double residual = tie_residual(&problem->ties[i], z);
        sum += residual * residual / 2;
    }
    return sum;
}

static void differentiate(struct arena *scratch, const struct fit_problem *problem,
                          struct fit_point *point)
{
    int count = problem->parameter_count;
    struct arena_mark mark = arena_mark(scratch);
    double *ln = ARENA_NEW(scratch, double, problem->row_count);
    bool *wanted = ARENA_NEW(scratch, bool, problem->row_count);
    for (int parameter = 0; parameter < count; parameter++) {
        for (int row = 0; row < problem->row_count; row++) {
            wanted[row] =
                problem->weight[row] > 0 && problem->depends(problem->context, row, parameter);
        }
        double z = point->z[parameter];
        point->z[parameter] = z + DIFFERENCE;
        problem->predict(problem->context, point->z, wanted, ln);
        point->z[parameter] = z;
        for (int row = 0; row < problem->row_count; row++) {
            double change = wanted[row] ? (ln[row] - point->ln[row]) / DIFFERENCE : 0;
            point->jacobian[row * count + parameter] = change;
        }
    }
    memcpy(point->jacobian_z, point->z, (size_t)count * sizeof *point->z);
    arena_reset(scratch, mark);
}

// Rows that are left out as well: they are predicted where the others have led.
static void predict_all(struct arena *scratch, const struct fit_problem *problem,
                        struct fit_point *point)
{
    struct arena_mark mark = arena_mark(scratch);
    bool *wanted = ARENA_NEW(scratch, bool, problem->row_count);
    memset(wanted, true, (size_t)problem->row_count);
    problem->predict(problem->context, point->z, wanted, point->ln);
    arena_reset(scratch, mark);
}

static double moved_since(const struct fit_problem *problem, const struct fit_point *point)
{
    double most = 0;
    for (int i = 0; i < problem->parameter_count; i++) {
        most = fmax(most, fabs(point->z[i] - point->jacobian_z[i]));
    }
    return most;
}

// The Gauss-Newton matrix and the negative gradient. A row beyond Huber's delta counts by the
// weight that gives its pull.
static void assemble(const struct fit_problem *problem, const struct fit_point *point, double *a,
                     double *b)
{
    int count = problem->parameter_count;
    memset(a, 0, (size_t)count * (size_t)count * sizeof *a);
    for (int i = 0; i < count; i++) {
        a[i * count + i] = 1;
        b[i] = -point->z[i];
    }
    for (int i = 0; i < problem->tie_count; i++) {
        const struct fit_tie *tie = &problem->ties[i];
        double residual = tie_residual(tie, point->z);
        double from_a = tie->a_scale / tie->spread, from_b = -tie->b_scale / tie->spread;
        b[tie->a] -= from_a * residual;
        b[tie->b] -= from_b * residual;
        a[tie->a * count + tie->a] += from_a * from_a;
        a[tie->b * count + tie->b] += from_b * from_b;
        a[tie->a * count + tie->b] += from_a * from_b;
        a[tie->b * count + tie->a] += from_a * from_b;
    }
    for (int row = 0; row < problem->row_count; row++) {
        if (problem->weight[row] == 0) continue;
        const double *slope = &point->jacobian[row * count];
        double residual = row_residual(problem, point->ln, row);
        double robust = fmin(1, problem->huber_delta / fmax(fabs(residual), 1e-12));
        double weight = problem->weight[row] * robust / problem->sigma;
        for (int i = 0; i < count; i++) {
            if (slope[i] == 0) continue;
            b[i] -= weight * slope[i] * residual;
            for (int k = 0; k <= i; k++) {
                a[i * count + k] += weight * slope[i] * slope[k] / problem->sigma;
            }
        }
    }
}

// The step into `step`; its longest part is the result.
static double step_of(struct arena *scratch, const struct fit_problem *problem,
                      const struct fit_point *point, double damping, double *step)
{
    int count = problem->parameter_count;
    struct arena_mark mark = arena_mark(scratch);
    double *a = ARENA_NEW(scratch, double, count *count);
    assemble(problem, point, a, step);
    for (int i = 0; i < count; i++) {
        a[i * count + i] *= 1 + damping;
    }
    bool solved = cholesky_solve(a, step, count);
    assert(solved && "the priors make the matrix positive definite");
    (void)solved;
    arena_reset(scratch, mark);
    double longest = 0;
    for (int i = 0; i < count; i++) {
        longest = fmax(longest, fabs(step[i]));
    }
    double shorter = fmin(1, STEP_MOST / fmax(longest, 1e-12));
    for (int i = 0; i < count; i++) {
        step[i] *= shorter;
    }
    return longest * shorter;
}

// Takes the step if that is lower.
static bool try_step(struct arena *scratch, const struct fit_problem *problem,
                     struct fit_point *point, const double *step)
{
    struct arena_mark mark = arena_mark(scratch);
    double *z = ARENA_NEW(scratch, double, problem->parameter_count);
    double *ln = ARENA_NEW(scratch, double, problem->row_count);
    bool *wanted = ARENA_NEW(scratch, bool, problem->row_count);
    for (int i = 0; i < problem->parameter_count; i++) {
        z[i] = point->z[i] + step[i];
    }
    memcpy(ln, point->ln, (size_t)problem->row_count * sizeof *ln);
    for (int row = 0; row < problem->row_count; row++) {
        wanted[row] = problem->weight[row] > 0;
    }
    problem->predict(problem->context, z, wanted, ln);
    double lower = objective(problem, z, ln);
    bool is_lower = lower < point->objective;
    if (is_lower) {
        memcpy(point->z, z, (size_t)problem->parameter_count * sizeof *z);
        memcpy(point->ln, ln, (size_t)problem->row_count * sizeof *ln);
        point->objective = lower;
        point->step_count++;
    }
    arena_reset(scratch, mark);
    return is_lower;
}

struct fit_point fit_start(struct arena *arena, const struct fit_problem *problem)
{
    int count = problem->parameter_count;
    struct fit_point point = {
        .z = ARENA_NEW(arena, double, count),
        .ln = ARENA_NEW(arena, double, problem->row_count),
        .jacobian = ARENA_NEW(arena, double, (size_t)problem->row_count *(size_t)count),
        .jacobian_z = ARENA_NEW(arena, double, count),
    };
    predict_all(arena, problem, &point);
    differentiate(arena, problem, &point);
    return point;
}

struct fit_point fit_point_copy(struct arena *arena, const struct fit_problem *problem,
                                const struct fit_point *point)
{
    size_t rows = (size_t)problem->row_count, count = (size_t)problem->parameter_count;
    struct fit_point copy = {
        .z = ARENA_NEW(arena, double, count),
        .ln = ARENA_NEW(arena, double, rows),
        .jacobian = ARENA_NEW(arena, double, rows *count),
        .jacobian_z = ARENA_NEW(arena, double, count),
    };
    memcpy(copy.z, point->z, count * sizeof *copy.z);
    memcpy(copy.ln, point->ln, rows * sizeof *copy.ln);
    memcpy(copy.jacobian, point->jacobian, rows * count * sizeof *copy.jacobian);
    memcpy(copy.jacobian_z, point->jacobian_z, count * sizeof *copy.jacobian_z);
    return copy;
}

void fit_solve(struct arena *scratch, const struct fit_problem *problem, struct fit_point *point)
{
    struct arena_mark mark = arena_mark(scratch);
    double *step = ARENA_NEW(scratch, double, problem->parameter_count);
    double damping = DAMPING_START;
    point->objective = objective(problem, point->z, point->ln);
    point->converged = false;
    for (int i = 0; i < STEP_COUNT_MOST && !point->converged; i++) {
        if (moved_since(problem, point) > MOVED_MOST) differentiate(scratch, problem, point);
        double longest = step_of(scratch, problem, point, damping, step);
        bool is_end = longest < FIT_STEP_END && damping < 1;
        bool is_lower = !is_end && try_step(scratch, problem, point, step);
        if (is_lower) {
            damping = fmax(damping / 4, 1e-9);
        } else if (moved_since(problem, point) > MOVED_MOST_AT_END) {
            differentiate(scratch, problem, point);
        } else if (is_end) {
            point->converged = true;
        } else if ((damping *= 8) > DAMPING_MOST) {
            break;
        }
    }
    predict_all(scratch, problem, point);
    arena_reset(scratch, mark);
}

int fit_row_count(const struct fit_problem *problem, const struct fit_point *point, int parameter)
{
    int count = 0;
    for (int row = 0; row < problem->row_count; row++) {
        double slope = point->jacobian[row * problem->parameter_count + parameter];
        count += problem->weight[row] > 0 && slope != 0;
    }
    return count;
}
