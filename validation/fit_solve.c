#include "validation/fit_solve.h"
#include "validation/cholesky.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Derivatives are central differences over this many spreads to each side: wide enough to see past
// the corners where another tile, algorithm or overlap becomes the fastest.
static const double DIFFERENCE = 0.1;
// Derivatives are taken again where a parameter has moved this far from where they were taken.
static const double MOVED_MOST = 0.5, MOVED_MOST_AT_END = 0.05;
// Steps of more than this many spreads are shortened: the derivatives do not reach farther.
static const double STEP_MOST = 1;
static const double DAMPING_START = 1e-3, DAMPING_LEAST = 1e-9;
// At a corner no step may be lower although the derivatives promise one: after so many steps in
// vain, each shorter than the one before, the point stays.
enum { STEP_COUNT_MOST = 100, VAIN_COUNT_MOST = 5 };

static double row_residual(const struct fit_problem *problem, const double *ln, int row)
{
    return (ln[row] - problem->measured_ln[row]) / problem->sigma;
}

static double tie_residual(const struct fit_tie *tie, const double *z)
{
    assert(tie->spread > 0);
    return (tie->a_scale * z[tie->a] - tie->b_scale * z[tie->b]) / tie->spread;
}

// Huber's loss of rows, and squares for priors and ties, which are normal.
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

// How far a parameter that a row's derivatives depend on has moved since they were taken.
static double row_moved(const struct fit_problem *problem, const struct fit_point *point, int row)
{
    int count = problem->parameter_count;
    double most = 0;
    for (int i = 0; i < count && problem->weight[row] > 0; i++) {
        if (point->jacobian[row * count + i] == 0) continue;
        most = fmax(most, fabs(point->z[i] - point->jacobian_z[row * count + i]));
    }
    return most;
}

static double moved_most(const struct fit_problem *problem, const struct fit_point *point)
{
    double most = 0;
    for (int row = 0; row < problem->row_count; row++) {
        most = fmax(most, row_moved(problem, point, row));
    }
    return most;
}

static void differentiate_by(struct arena *scratch, const struct fit_problem *problem,
                             struct fit_point *point, const bool *stale, int parameter)
{
    assert(parameter >= 0 && parameter < problem->parameter_count);
    struct arena_mark mark = arena_mark(scratch);
    double *above = ARENA_NEW(scratch, double, problem->row_count);
    double *below = ARENA_NEW(scratch, double, problem->row_count);
    bool *wanted = ARENA_NEW(scratch, bool, problem->row_count);
    for (int row = 0; row < problem->row_count; row++) {
        wanted[row] = stale[row] && problem->depends(problem->context, row, parameter);
    }
    double z = point->z[parameter];
    point->z[parameter] = z + DIFFERENCE;
    problem->approximate(problem->context, point->z, wanted, above);
    point->z[parameter] = z - DIFFERENCE;
    problem->approximate(problem->context, point->z, wanted, below);
    point->z[parameter] = z;
    for (int row = 0; row < problem->row_count; row++) {
        if (!stale[row]) continue;
        int at = row * problem->parameter_count + parameter;
        point->jacobian[at] = wanted[row] ? (above[row] - below[row]) / (2 * DIFFERENCE) : 0;
        point->jacobian_z[at] = z;
    }
    arena_reset(scratch, mark);
}

// Derivatives of the rows that weigh and have moved at least `moved_least`.
static void differentiate(struct arena *scratch, const struct fit_problem *problem,
                          struct fit_point *point, double moved_least)
{
    struct arena_mark mark = arena_mark(scratch);
    bool *stale = ARENA_NEW(scratch, bool, problem->row_count);
    for (int row = 0; row < problem->row_count; row++) {
        stale[row] = problem->weight[row] > 0 && row_moved(problem, point, row) >= moved_least;
    }
    for (int i = 0; i < problem->parameter_count; i++) {
        differentiate_by(scratch, problem, point, stale, i);
    }
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

// A row beyond Huber's delta counts by the weight that gives its pull.
static double row_weight(const struct fit_problem *problem, const struct fit_point *point, int row,
                         double *residual)
{
    *residual = row_residual(problem, point->ln, row);
    double robust = fmin(1, problem->huber_delta / fmax(fabs(*residual), 1e-12));
    return problem->weight[row] * robust / problem->sigma;
}

// The Gauss-Newton matrix and the negative gradient.
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
        double residual, weight = row_weight(problem, point, row, &residual);
        for (int i = 0; i < count; i++) {
            if (slope[i] == 0) continue;
            b[i] -= weight * slope[i] * residual;
            for (int k = 0; k <= i; k++) {
                a[i * count + k] += weight * slope[i] * slope[k] / problem->sigma;
            }
        }
    }
}

// Of one parameter what the matrix has on its diagonal, and the negative gradient: a two hundredth
// of the whole, which was a fifth of a fit's time.
static double assemble_one(const struct fit_problem *problem, const struct fit_point *point,
                           int parameter, double *b)
{
    double a = 1;
    *b = -point->z[parameter];
    for (int i = 0; i < problem->tie_count; i++) {
        const struct fit_tie *tie = &problem->ties[i];
        if (tie->a != parameter && tie->b != parameter) continue;
        double from = (tie->a == parameter ? tie->a_scale : -tie->b_scale) / tie->spread;
        *b -= from * tie_residual(tie, point->z);
        a += from * from;
    }
    for (int row = 0; row < problem->row_count; row++) {
        double slope = point->jacobian[row * problem->parameter_count + parameter];
        if (problem->weight[row] == 0 || slope == 0) continue;
        double residual, weight = row_weight(problem, point, row, &residual);
        *b -= weight * slope * residual;
        a += weight * slope * slope / problem->sigma;
    }
    return a;
}

// Levenberg's damping shortens steps that the last ones showed to be too long.
static void step_of(struct arena *scratch, const struct fit_problem *problem,
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
}

// Rows that a step cannot move keep their prediction, which is most of the time.
static bool row_depends(const struct fit_problem *problem, int row, const double *step)
{
    for (int i = 0; i < problem->parameter_count; i++) {
        if (step[i] != 0 && problem->depends(problem->context, row, i)) return true;
    }
    return false;
}

// Takes the step if that is lower; by how much. 0: it is not.
static double try_step(struct arena *scratch, const struct fit_problem *problem,
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
        wanted[row] = problem->weight[row] > 0 && row_depends(problem, row, step);
    }
    problem->predict(problem->context, z, wanted, ln);
    double lower = objective(problem, z, ln);
    double gain = fmax(point->objective - lower, 0);
    if (gain > 0) {
        memcpy(point->z, z, (size_t)problem->parameter_count * sizeof *z);
        memcpy(point->ln, ln, (size_t)problem->row_count * sizeof *ln);
        point->objective = lower;
        point->step_count++;
    }
    arena_reset(scratch, mark);
    return gain;
}

// Each parameter alone, by its own Newton step or half of it: where all of them together stand at a
// corner, some can still move along it. Returns by how much the objective fell.
static double step_alone(struct arena *scratch, const struct fit_problem *problem,
                         struct fit_point *point)
{
    int count = problem->parameter_count;
    struct arena_mark mark = arena_mark(scratch);
    double *step = ARENA_NEW(scratch, double, count);
    double gain = 0;
    for (int i = 0; i < count; i++) {
        double slope, curvature = assemble_one(problem, point, i, &slope);
        if (slope * slope / curvature / 2 <= FIT_GAIN_END) continue;
        step[i] = fmax(-STEP_MOST, fmin(STEP_MOST, slope / curvature));
        double one = try_step(scratch, problem, point, step);
        step[i] /= 2;
        if (one == 0) one = try_step(scratch, problem, point, step);
        step[i] = 0;
        gain += one;
    }
    arena_reset(scratch, mark);
    return gain;
}

// At the priors, z = 0, with derivatives of all rows.
struct fit_point fit_start(struct arena *arena, const struct fit_problem *problem)
{
    assert(problem->sigma > 0 && problem->huber_delta > 0);
    int count = problem->parameter_count;
    struct fit_point point = {
        .z = ARENA_NEW(arena, double, count),
        .ln = ARENA_NEW(arena, double, problem->row_count),
        .jacobian = ARENA_NEW(arena, double, (size_t)problem->row_count *(size_t)count),
        .jacobian_z = ARENA_NEW(arena, double, (size_t)problem->row_count *(size_t)count),
    };
    predict_all(arena, problem, &point);
    differentiate(arena, problem, &point, 0);
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
        .jacobian_z = ARENA_NEW(arena, double, rows *count),
    };
    memcpy(copy.z, point->z, count * sizeof *copy.z);
    memcpy(copy.ln, point->ln, rows * sizeof *copy.ln);
    memcpy(copy.jacobian, point->jacobian, rows * count * sizeof *copy.jacobian);
    memcpy(copy.jacobian_z, point->jacobian_z, rows * count * sizeof *copy.jacobian_z);
    return copy;
}

void fit_solve(struct arena *scratch, const struct fit_problem *problem, struct fit_point *point)
{
    struct arena_mark mark = arena_mark(scratch);
    double *step = ARENA_NEW(scratch, double, problem->parameter_count);
    double damping = DAMPING_START;
    int vain_count = 0;
    point->objective = objective(problem, point->z, point->ln);
    double start = point->objective;
    assert(isfinite(start));
    point->converged = false;
    for (int i = 0; i < STEP_COUNT_MOST && !point->converged; i++) {
        double moved = moved_most(problem, point);
        if (moved > MOVED_MOST || (vain_count > 0 && moved > MOVED_MOST_AT_END)) {
            differentiate(scratch, problem, point, MOVED_MOST_AT_END);
            moved = moved_most(problem, point);
        }
        step_of(scratch, problem, point, damping, step);
        double gain = try_step(scratch, problem, point, step);
        vain_count = gain > FIT_GAIN_END ? 0 : vain_count + 1;
        damping = gain > 0 ? fmax(damping / 4, DAMPING_LEAST) : damping * 8;
        // Derivatives from far away are no reason to stay.
        bool is_near = moved <= MOVED_MOST_AT_END;
        bool in_vain = is_near && vain_count >= (gain > 0 ? 1 : VAIN_COUNT_MOST);
        if (!in_vain) continue;
        point->converged = step_alone(scratch, problem, point) <= FIT_GAIN_END;
        vain_count = 0;
        damping = DAMPING_START;
    }
    assert(point->objective <= start);  // only steps that lower it are taken
    predict_all(scratch, problem, point);
    arena_reset(scratch, mark);
}

int fit_row_count(const struct fit_problem *problem, const struct fit_point *point, int parameter)
{
    assert(parameter >= 0 && parameter < problem->parameter_count);
    int count = 0;
    for (int row = 0; row < problem->row_count; row++) {
        double slope = point->jacobian[row * problem->parameter_count + parameter];
        count += problem->weight[row] > 0 && slope != 0;
    }
    return count;
}
