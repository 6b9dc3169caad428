#include "planner/strategy/solve.h"
#include "planner/strategy/exact.h"
#include "planner/strategy/round.h"
#include "planner/strategy/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <time.h>

// Entries a second: measured, see solve.h.
static const double STRATEGY_RATE = 3.5e8;
// What was done before, in the same measure, for a cost of an edge.
enum { READ_WORK = 130 };

struct solver {
    struct arena *arena, scratch;
    const struct strategy_problem *problem;
    const struct strategy_options *options;
    const struct reduced *reduced;
    const struct choice_model *model;
    struct dual *dual;
    struct rounding *rounding;
    struct choice_state *state;
    struct choice_search *search;
    double *prices, *best_prices, *slope, *priced;
    double best_bound, target, eta;
    int stalled;
    int *rounded, *best;  // the best choice of the model
    double best_cost;     // INFINITY: none yet
    int64_t work, budget;
    int64_t bound;
    bool is_cut, is_proven;
    clock_t started;  // processor time
};

double strategy_gap(const struct strategy_answer *answer)
{
    double cost = (double)answer->value.cost;
    return cost > 0 ? (cost - (double)answer->bound) / cost : 0;
}

static void say(struct solver *solver, const char *what)
{
    const struct strategy_options *options = solver->options;
    if (!options->log) return;
    struct arena_mark mark = arena_mark(&solver->scratch);
    double done_s = (double)clock() / CLOCKS_PER_SEC;
    const struct choice_search *search = solver->search;
    options->log(
        options->log_context,
        arena_print(
            &solver->scratch,
            "%s: %.1f s, work %.3f, bound %.0f, cost %.0f, forbidden %lld, excess %.6g,"
            " best %.0f, steps %lld/%lld chains %lld/%lld",
            what, done_s, (double)(solver->work + search_work(search)) / (double)solver->budget,
            solver->best_bound + solver->reduced->fixed_cost, solver->state->cost,
            (long long)solver->state->forbidden, solver->state->excess,
            solver->best_cost + solver->reduced->fixed_cost, (long long)search->gains,
            (long long)search->steps, (long long)search->chain_gains, (long long)search->chains));
    arena_reset(&solver->scratch, mark);
}

static bool is_over(struct solver *solver, double share)
{
    if (solver->is_proven) return true;
    if ((double)(solver->work + search_work(solver->search)) >= share * (double)solver->budget) {
        return true;
    }
    double took_s = (double)(clock() - solver->started) / CLOCKS_PER_SEC;
    solver->is_cut = took_s > 2 * solver->options->time_limit_s + 1;
    return solver->is_cut;
}

// The slope of the bound: what the rounded choice uses above the room.
static void find_slope(struct solver *solver, double *used)
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

// A step along the smoothed slope (Polyak), its gap kept within 0.2 to 10 % of the target.
static void step_prices(struct solver *solver)
{
    const struct choice_model *model = solver->model;
    struct arena_mark mark = arena_mark(&solver->scratch);
    double *used = ARENA_NEW(&solver->scratch, double, model->point_count + 1);
    find_slope(solver, used);
    double norm = 0, target = fmax(fabs(solver->target), 1);
    for (int t = 0; t < model->point_count; t++)
        norm += used[t] * used[t];
    double gap = fmin(fmax(solver->target - solver->dual->bound, 0.002 * target), 0.1 * target);
    double step = norm > 0 ? solver->eta * gap / norm : 0;
    for (int t = 0; t < model->point_count; t++)
        solver->prices[t] = fmax(0, solver->prices[t] + step * solver->slope[t]);
    dual_set_prices(solver->dual, &solver->scratch, solver->prices);
    solver->work += 3 * (int64_t)model->choice_count + 4 * model->point_count;
    arena_reset(&solver->scratch, mark);
}

static void keep_prices(struct solver *solver)
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

static void run_dual(struct solver *solver, double share)
{
    enum { LEAST = 10 };
    bool has_prices = solver->model->point_count > 0;
    for (int i = 0; (i < LEAST && !solver->is_proven) || !is_over(solver, share); i++) {
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
    dual_price_choices(solver->model, &solver->scratch, solver->prices, solver->priced);
    solver->search->priced = solver->priced;
    solver->search->prices = solver->prices;
}

static double priced_cost(const struct solver *solver)
{
    const struct choice_model *model = solver->model;
    double sum = solver->state->cost + (double)solver->state->forbidden * REDUCED_FORBIDDEN;
    for (int i = 0; i < model->node_count; i++)
        sum += solver->priced[model->starts[i] + solver->state->choice[i]];
    return sum;
}

// Sweeps at fixed prices, now and then rounded in every order; the cheapest at these prices stays.
static void round_all(struct solver *solver)
{
    enum { SWEEPS = 12, EVERY = 4 };
    double least = INFINITY;
    int *kept = ARENA_NEW(solver->arena, int, solver->model->node_count);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        dual_sweep(solver->dual, true, NULL);
        dual_sweep(solver->dual, false, NULL);
        solver->best_bound = fmax(solver->best_bound, solver->dual->bound);
        solver->work += 2 * solver->model->entry_count;
        if (sweep % EVERY != EVERY - 1) continue;
        for (int order = 0; order < ROUND_ORDER_COUNT; order++) {
            rounding_choose(solver->rounding, (enum round_order)order, solver->rounded);
            state_set(solver->state, solver->rounded);
            solver->work += 3 * solver->model->entry_count;
            search_pool_put(solver->search, solver->arena, solver->rounded);
            double cost = priced_cost(solver);
            if (cost >= least) continue;
            least = cost;
            memcpy(kept, solver->rounded, (size_t)solver->model->node_count * sizeof(int));
        }
    }
    state_set(solver->state, kept);
}

static void keep_best(struct solver *solver)
{
    const struct choice_state *state = solver->state;
    if (state->forbidden > 0 || state->excess > 0 || state->cost >= solver->best_cost) return;
    solver->best_cost = state->cost;
    solver->target = fmin(solver->target, state->cost);
    memcpy(solver->best, state->choice, (size_t)solver->model->node_count * sizeof(int));
    if (solver->best_bound < state->cost - 1) return;
    solver->bound = dual_certified(solver->dual, &solver->scratch);
    solver->is_proven = (double)solver->bound >= state->cost;
}

static double work_share(const struct solver *solver)
{
    return (double)(solver->work + search_work(solver->search)) / (double)solver->budget;
}

// At the dual's prices, until little is gained.
static void descend(struct solver *solver, double share)
{
    double end = fmin(share, work_share(solver) + 0.15);
    double before = priced_cost(solver);
    while (!is_over(solver, end)) {
        double next = fmin(end, work_share(solver) + 0.02);
        while (!is_over(solver, next))
            search_step(solver->search, SEARCH_PRICED);
        double after = priced_cost(solver);
        if (after > before - 0.001 * fabs(before)) break;
        before = after;
    }
    say(solver, "descent");
}

// Of what is exceeded, at the dual's prices there: a little more than memory is worth.
static double first_excess_price(const struct solver *solver)
{
    const struct choice_state *state = solver->state;
    double sum = 0;
    for (int t = 0; t < solver->model->point_count; t++)
        sum += solver->best_prices[t] * fmax(0, state->used[t] - solver->model->room[t]);
    double least = 1e-3 * fabs(solver->target) / fmax(state->excess, 1);
    return fmax(1.5 * sum / fmax(state->excess, 1), least);
}

static void repair(struct solver *solver, double share)
{
    struct choice_state *state = solver->state;
    state_set(state, state->choice);
    solver->search->excess_price = first_excess_price(solver);
    double before = state->excess;
    for (int64_t step = 1; (state->excess > 0 || state->forbidden > 0) && !is_over(solver, share);
         step++) {
        search_step(solver->search, SEARCH_REPAIR);
        if (step % search_repair_steps(solver->search)) continue;
        if (state->excess > 0.9 * before && solver->search->excess_price < 1e30)
            solver->search->excess_price *= 1.12;
        before = state->excess;
    }
    state_set(state, state->choice);
    say(solver, "repair");
    keep_best(solver);
}

static void better(struct solver *solver, double share)
{
    while (!is_over(solver, share))
        search_step(solver->search, SEARCH_FEASIBLE);
    state_set(solver->state, solver->state->choice);
    say(solver, "search");
    keep_best(solver);
}

// Costs of edges: what reading and reducing take grows with these.
static int64_t problem_entries(const struct strategy_problem *problem)
{
    return problem->edge_costs.starts[problem->edge_count];
}

static void start(struct solver *solver)
{
    const struct choice_model *model = solver->model;
    struct arena *arena = solver->arena;
    solver->dual = dual_new(arena, model);
    solver->rounding = rounding_new(arena, solver->dual);
    solver->state = state_new(arena, model);
    solver->search = search_new(arena, model, solver->state, solver->options->seed);
    solver->prices = ARENA_NEW(arena, double, model->point_count);
    solver->best_prices = ARENA_NEW(arena, double, model->point_count);
    solver->slope = ARENA_NEW(arena, double, model->point_count);
    solver->priced = ARENA_NEW(arena, double, model->choice_count);
    solver->rounded = ARENA_NEW(arena, int, model->node_count);
    solver->best = ARENA_NEW(arena, int, model->node_count);
    solver->best_cost = INFINITY;
    solver->best_bound = -INFINITY;
    solver->bound = INT64_MIN;
    solver->eta = 1;
    // However short the limit, a tenth of it is searched.
    double whole = solver->options->time_limit_s * STRATEGY_RATE;
    double read = (double)(READ_WORK * problem_entries(solver->problem));
    solver->budget = (int64_t)fmax(whole - read, whole / 10) + 1;
    dual_sweep(solver->dual, true, solver->rounded);
    dual_sweep(solver->dual, false, NULL);
    solver->target = 1.05 * solver->dual->bound;
}

// What GLPK can prove is not searched.
static bool solve_exactly(struct solver *solver, struct strategy_answer *answer)
{
    if (!exact_fits(solver->model)) return false;
    struct exact exact = exact_solve(solver->arena, solver->model);
    answer->is_impossible = exact.is_impossible;
    if (exact.is_impossible) return true;
    if (!exact.choice) return false;
    state_set(solver->state, exact.choice);
    keep_best(solver);
    if (!isfinite(solver->best_cost)) return false;
    if (exact.bound > solver->bound) solver->bound = exact.bound;
    solver->is_proven = (double)solver->bound >= solver->best_cost;
    return exact.is_optimal;
}

// What was found this round goes into the pool and the best of all goes on: windows from the pool
// put the better parts of both together.
static void mix(struct solver *solver)
{
    enum { COPIES = 6 };
    for (int i = 0; i < COPIES; i++)
        search_pool_put(solver->search, solver->arena, solver->state->choice);
    if (solver->state->cost > solver->best_cost) state_set(solver->state, solver->best);
}

// The bound of the best prices, whose messages are those of the prices that were tried last: swept
// until they are as good, within a thirtieth of the budget.
static void certify(struct solver *solver)
{
    enum { SHARE = 30 };
    int64_t sweep = 4 * solver->model->entry_count + 1;
    int64_t left = solver->budget / SHARE / sweep;
    for (; left > 0 && solver->dual->bound < solver->best_bound; left--) {
        dual_sweep(solver->dual, true, NULL);
        dual_sweep(solver->dual, false, NULL);
    }
    int64_t bound = dual_certified(solver->dual, &solver->scratch);
    if (bound > solver->bound) solver->bound = bound;
}

static void solve_model(struct solver *solver)
{
    static const struct {
        double dual, alone, end;  // shares of the budget
    } ROUNDS[] = {{0.15, 0.2, 0.22}, {0.5, 0.7, 1}};
    for (int round = 0; round < 2 && !solver->is_proven; round++) {
        run_dual(solver, ROUNDS[round].dual);
        say(solver, "dual");
        round_all(solver);
        descend(solver, ROUNDS[round].end);
        repair(solver, ROUNDS[round].end);
        if (!isfinite(solver->best_cost)) continue;
        if (solver->state->excess > 0 || solver->state->forbidden > 0)
            state_set(solver->state, solver->best);
        search_pool_put(solver->search, solver->arena, solver->best);
        better(solver, ROUNDS[round].alone);
        mix(solver);
        better(solver, ROUNDS[round].end);
    }
    if (!solver->is_proven) certify(solver);
}

struct strategy_answer strategy_solve(struct arena *arena, const struct strategy_problem *problem,
                                      const struct strategy_options *options)
{
    struct strategy_answer answer = {0};
    struct solver solver = {
        .arena = arena, .problem = problem, .options = options, .started = clock()};
    solver.reduced = reduced_make(arena, problem);
    solver.model = model_make(arena, solver.reduced);
    answer.is_impossible = solver.model->is_impossible;
    if (answer.is_impossible) return answer;
    if (options->log) {
        const struct choice_model *m = solver.model;
        options->log(
            options->log_context,
            arena_print(arena,
                        "reduced: nodes %d choices %d edges %d entries %lld points %d parts %d",
                        m->node_count, m->choice_count, m->edge_count, (long long)m->entry_count,
                        m->point_count, m->part_count));
    }
    int *choice = ARENA_NEW(arena, int, problem->node_count);
    start(&solver);
    if (!solve_exactly(&solver, &answer)) solve_model(&solver);
    answer.bound = solver.bound + (int64_t)solver.reduced->fixed_cost;
    if (isfinite(solver.best_cost)) {
        model_expand(solver.model, solver.reduced, solver.best, choice);
        answer.choice = choice;
        answer.value = strategy_problem_value(&solver.scratch, problem, choice);
        assert(answer.value.is_valid && "the reduced problem allows what the whole one does");
    }
    answer.is_cut = solver.is_cut;
    arena_free(&solver.scratch);
    return answer;
}
