#include "planner/strategy/solver.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The slope of the bound: what the rounded choice uses above the room.
static void find_slope(struct strategy_solver *solver, double *used)
{
    const struct choice_model *model = solver->model;
    memset(used, 0, (size_t)(model->point_count + 1) * sizeof(double));
    for (int p = 0; p < model->part_count; p++) {
        const struct model_part *part = &model->parts[p];
        double usage = model->usages[part->usage + solver->rounded[model->part_nodes[p]]];
        used[part->birth] += usage;
        used[part->death] -= usage;
    }
    double sum = 0;
    for (int t = 0; t < model->point_count; t++) {
        sum += used[t];
        double slope = sum - model->room[t];
        if (slope < 0 && solver->prices[t] <= 0 && solver->slope[t] <= 0) slope = 0;
        solver->slope[t] = 0.7 * solver->slope[t] + 0.3 * slope;
        used[t] = slope;
    }
}

// How far a price goes for a unit of its slope: points at which little is used beside others move
// as fast as those at which much is. `sizes` are the mean squares of slopes, the last ones most.
static void size_steps(struct strategy_solver *solver, const double *slope, double *reach)
{
    static const double FADES = 0.7, LEAST = 1e-3;
    int count = solver->model->point_count;
    double norm = 0;
    for (int t = 0; t < count; t++)
        norm += slope[t] * slope[t];
    for (int t = 0; t < count; t++) {
        double *size = &solver->slope_squares[t];
        *size = FADES * *size + (1 - FADES) * slope[t] * slope[t];
        double square = *size + LEAST * norm / count;
        reach[t] = square > 0 ? 1 / sqrt(square) : 0;
    }
}

// A step along the smoothed slope (Polyak), its gap kept within 0.2 to 5 % of the target.
static void step_prices(struct strategy_solver *solver)
{
    assert(solver->eta > 0 && solver->model->point_count > 0);
    const struct choice_model *model = solver->model;
    struct arena_mark mark = arena_mark(&solver->scratch);
    double *used = ARENA_NEW(&solver->scratch, double, model->point_count + 1);
    double *reach = ARENA_NEW(&solver->scratch, double, model->point_count);
    find_slope(solver, used);
    size_steps(solver, used, reach);
    double norm = 0, target = fmax(fabs(solver->target), 1);
    for (int t = 0; t < model->point_count; t++)
        norm += reach[t] * used[t] * used[t];
    double gap = fmin(fmax(solver->target - solver->dual->bound, 0.002 * target), 0.05 * target);
    double step = norm > 0 ? solver->eta * gap / norm : 0;
    for (int t = 0; t < model->point_count; t++)
        solver->prices[t] = fmax(0, solver->prices[t] + step * reach[t] * solver->slope[t]);
    dual_set_prices(solver->dual, &solver->scratch, solver->prices);
    solver->work += 3 * (int64_t)model->choice_count + 8 * model->point_count;
    solver->work += solver->pricing_work;
    arena_reset(&solver->scratch, mark);
}

static void keep_prices(struct strategy_solver *solver)
{
    const struct choice_model *model = solver->model;
    size_t bytes = (size_t)model->point_count * sizeof(double);
    double bound = solver->dual->bound;
    if (bound > solver->best_bound) {
        solver->stalled = bound > solver->best_bound + 1e-5 * fabs(bound) ? 0 : solver->stalled + 1;
        solver->best_bound = bound;
        if (!isfinite(solver->best_cost)) solver->target = bound + 0.05 * fabs(bound);
        memcpy(solver->best_prices, solver->prices, bytes);
    } else {
        solver->stalled++;
    }
    bool collapsed = bound < solver->best_bound - 0.05 * fabs(solver->target);
    if (solver->stalled < 25 && !collapsed) return;
    solver->stalled = 0;
    solver->eta *= 0.75;
    if (!collapsed) return;
    memcpy(solver->prices, solver->best_prices, bytes);
    dual_set_prices(solver->dual, &solver->scratch, solver->prices);
}

void solver_ascend(struct strategy_solver *solver, double share)
{
    assert(share > 0 && share <= 1);
    enum { LEAST = 10 };
    bool has_prices = solver->model->point_count > 0;
    for (int i = 0; (i < LEAST && !solver->is_proven) || !solver_is_over(solver, share); i++) {
        dual_sweep(solver->dual, true, solver->rounded);
        dual_sweep(solver->dual, false, NULL);
        solver->work += 2 * solver->model->entry_count + 2 * solver->model->choice_count;
        keep_prices(solver);
        if (solver->eta < 1e-3) solver->eta = 0.5;
        if (has_prices) step_prices(solver);
    }
    memcpy(solver->prices, solver->best_prices,
           (size_t)solver->model->point_count * sizeof(double));
    dual_set_prices(solver->dual, &solver->scratch, solver->prices);
    solver_price(solver, 1);
}

void solver_price(struct strategy_solver *solver, double ratio)
{
    dual_price_choices(solver->model, &solver->scratch, solver->prices, solver->priced);
    for (int x = 0; x < solver->model->choice_count; x++)
        solver->priced[x] *= ratio;
    solver->search->priced = solver->priced;
    solver->search->prices = solver->prices;
}
