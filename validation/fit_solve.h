#pragma once
#include "core/arena.h"

// The estimate behind `fit`, knowing nothing of devices: parameters z, each in units of its prior's
// spread, so that the prior is a standard normal distribution and 0 the prior's value; rows with a
// predicted and a measured logarithm of seconds. Minimised is
//     sum_i w_i rho((predicted_i(z) - measured_i) / sigma) + sum_j z_j^2 / 2 + ties,
// rho of Huber (1964, Ann. Math. Statist. 35): square up to `huber_delta` sigmas, linear beyond, so
// that a row that is off by half pulls no harder than one that is off by two sigmas. Gauss-Newton
// steps with Levenberg's and Marquardt's damping (Marquardt 1963); derivatives are central
// differences, taken again where the parameters have moved on.

// Two parameters that are expected to deviate alike (one silicon under two names): adds
// ((a_scale z_a - b_scale z_b) / spread)^2 / 2.
struct fit_tie {
    int a, b;
    double a_scale, b_scale, spread;
};

struct fit_problem {
    int row_count, parameter_count;
    const double *measured_ln;
    const double *weight;  // one a row; 0: left out
    double sigma, huber_delta;
    const struct fit_tie *ties;
    int tie_count;
    // ln seconds of every row that is `wanted`; the others stay as they are.
    void (*predict)(void *context, const double *z, const bool *wanted, double *ln);
    // The same, or nearly so and faster: for derivatives.
    void (*approximate)(void *context, const double *z, const bool *wanted, double *ln);
    // Whether a row's prediction can depend on a parameter.
    bool (*depends)(void *context, int row, int parameter);
    void *context;
};

// Where a solution stands. `jacobian` is d ln / dz, a row after the other, each taken at its
// `jacobian_z`.
struct fit_point {
    double *z, *ln;
    double *jacobian, *jacobian_z;
    double objective;
    int step_count;  // accepted ones
    bool converged;  // no step was found that lowers the objective by more than FIT_GAIN_END
};

#define FIT_GAIN_END 1e-3

// From z = 0.
struct fit_point fit_start(struct arena *arena, const struct fit_problem *problem);
// The same place, for a problem that differs in weights only.
struct fit_point fit_point_copy(struct arena *arena, const struct fit_problem *problem,
                                const struct fit_point *point);
// Moves the point to the minimum. `scratch` is reset.
void fit_solve(struct arena *scratch, const struct fit_problem *problem, struct fit_point *point);
// Rows with a weight above 0 whose prediction changes with a parameter at the point.
int fit_row_count(const struct fit_problem *problem, const struct fit_point *point, int parameter);
