#include "planner/strategy/exact.h"
#include "memory/milp.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

bool exact_fits(const struct choice_model *model)
{
    return model->choice_count + model->entry_count <= EXACT_COLUMNS_MOST;
}

// Costs and usages are brought into 0 .. 100.
static double scale_of(const struct choice_model *model)
{
    double most = 1;
    for (int i = 0; i < model->choice_count; i++)
        if (model->cost[i] < REFUSED) most = fmax(most, fabs(model->cost[i]));
    for (int i = 0; i < model->node_count; i++) {
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int count =
                arc->side == 0 ? model_choices(model, i) * model_choices(model, arc->node) : 0;
            for (int k = 0; k < count; k++)
                if (arc->cost[k] < REFUSED) most = fmax(most, fabs(arc->cost[k]));
        }
    }
    return 100 / most;
}

static double cost_of(const struct choice_model *model, const int *choice)
{
    double sum = 0;
    for (int i = 0; i < model->node_count; i++) {
        sum += model->cost[model->starts[i] + choice[i]];
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int columns = model_choices(model, arc->node);
            if (arc->side == 0) sum += arc->cost[choice[i] * columns + choice[arc->node]];
        }
    }
    return sum;
}

// Takes the least off costs, which every answer pays; forbids what takes more than `room` over it.
static const double *over_least(struct arena *arena, const double *cost, int count, double room,
                                double *floor)
{
    assert(count > 0 && room >= 0);
    double *over = ARENA_NEW(arena, double, count), least = INFINITY;
    for (int i = 0; i < count; i++)
        least = fmin(least, cost[i]);
    for (int i = 0; i < count; i++)
        over[i] =
            cost[i] < REFUSED && cost[i] - least <= room ? cost[i] - least : REDUCED_FORBIDDEN;
    *floor += least;
    return over;
}

// A copy without what every answer pays (`floor`) and without what takes more than `room` on top of
// that: costs that decide are not drowned by such as nobody has a choice of or would choose.
static struct choice_model over_floor(struct arena *arena, const struct choice_model *model,
                                      double room, double *floor)
{
    struct choice_model over = *model;
    int arc_count = model->arc_starts[model->node_count];
    over.cost = ARENA_NEW(arena, double, model->choice_count);
    over.arcs = ARENA_COPY(arena, struct model_arc, model->arcs, arc_count);
    *floor = 0;
    for (int i = 0; i < model->node_count; i++) {
        int first = model->starts[i], choices = model_choices(model, i);
        const double *cost = over_least(arena, model->cost + first, choices, room, floor);
        memcpy(over.cost + first, cost, (size_t)choices * sizeof *cost);
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            struct model_arc *arc = &over.arcs[a];
            int count = choices * model_choices(model, arc->node);
            if (arc->side == 0) arc->cost = over_least(arena, arc->cost, count, room, floor);
        }
    }
    return over;
}

static void put_choices(struct milp *milp, const struct choice_model *model, double scale)
{
    for (int i = 0; i < model->node_count; i++) {
        int row = milp_row(milp, 1, 1);
        for (int x = model->starts[i]; x < model->starts[i + 1]; x++) {
            bool may = model->cost[x] < REFUSED;
            milp_put(milp, row,
                     milp_column(milp, MILP_BINARY, 0, may, may ? scale * model->cost[x] : 0), 1);
        }
    }
}

// The pairs of an edge: those of a row are chosen as its choice is, and so are columns.
static void put_edge(struct milp *milp, const struct choice_model *model, int node,
                     const struct model_arc *arc, double scale)
{
    int rows = model_choices(model, node), columns = model_choices(model, arc->node);
    int first = milp_row_count(milp);
    for (int i = 0; i < rows + columns; i++) {
        int row = milp_row(milp, 0, 0);
        int own = i < rows ? model->starts[node] + i : model->starts[arc->node] + i - rows;
        milp_put(milp, row, own, -1);
    }
    for (int x = 0; x < rows; x++) {
        for (int y = 0; y < columns; y++) {
            double cost = arc->cost[x * columns + y];
            bool may = cost < REFUSED;
            int pair = milp_column(milp, MILP_CONTINUOUS, 0, may, may ? scale * cost : 0);
            milp_put(milp, first + x, pair, 1);
            milp_put(milp, first + rows + y, pair, 1);
        }
    }
}

static void put_points(struct milp *milp, const struct choice_model *model)
{
    for (int t = 0; t < model->point_count; t++) {
        double most = fmax(model->room[t], 1);
        int row = milp_row(milp, -INFINITY, 100 * model->room[t] / most);
        for (int p = 0; p < model->part_count; p++) {
            const struct model_part *part = &model->parts[p];
            if (t < part->birth || t >= part->death) continue;
            int node = model->part_nodes[p];
            for (int x = 0; x < model_choices(model, node); x++)
                milp_put(milp, row, model->starts[node] + x,
                         100 * model->usages[part->usage + x] / most);
        }
    }
}

static struct exact solve_once(struct arena *arena, const struct choice_model *model, double scale,
                               double floor)
{
    assert(scale > 0 && isfinite(scale));
    static const double TRUSTED = 1 - 1e-6, RESOLVED = 1e-6;
    enum { TREE_NODES = 20000 };
    struct milp *milp = milp_new(arena, "strategy");
    put_choices(milp, model, scale);
    for (int i = 0; i < model->node_count; i++)
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++)
            if (model->arcs[a].side == 0) put_edge(milp, model, i, &model->arcs[a], scale);
    put_points(milp, model);
    struct milp_options options = {.node_cap = TREE_NODES};
    struct milp_result result = milp_solve(milp, &options);
    struct exact exact = {.is_impossible = result.status == MILP_INFEASIBLE};
    if (!result.values) return exact;
    int *choice = ARENA_NEW(arena, int, model->node_count);
    for (int i = 0; i < model->node_count; i++)
        for (int x = model->starts[i]; x < model->starts[i + 1]; x++)
            if (result.values[x] > 0.5) choice[i] = x - model->starts[i];
    double bound = result.status == MILP_OPTIMAL ? result.objective : result.bound;
    bound = (fmin(bound * TRUSTED, bound / TRUSTED) - RESOLVED) / scale;
    exact.choice = choice;
    exact.is_optimal = result.status == MILP_OPTIMAL;
    exact.bound = isfinite(bound) ? (int64_t)ceil(floor + bound - 0.5) : 0;
    return exact;
}

struct exact exact_solve(struct arena *arena, const struct choice_model *model)
{
    assert(exact_fits(model));
    static const double FINER = 2;
    double floor, best_cost = INFINITY, scale = 0;
    struct choice_model over = over_floor(arena, model, INFINITY, &floor);
    struct exact best = {0};
    while (scale_of(&over) > FINER * scale) {
        scale = scale_of(&over);
        struct exact found = solve_once(arena, &over, scale, floor);
        if (!found.choice) return best.choice ? best : found;
        double cost = cost_of(model, found.choice);
        if (cost > best_cost) found.choice = best.choice;
        best_cost = fmin(best_cost, cost);
        best = found;
        over = over_floor(arena, model, best_cost - floor, &floor);
    }
    return best;
}
