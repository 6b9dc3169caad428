#include "planner/strategy/solve.h"
#include "planner/strategy/exact.h"
#include "planner/strategy/solver.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

// Entries a second: measured, see solve.h.
static const double STRATEGY_RATE = 3.5e8;
// What was done before, in the same measure, for a cost of an edge.
enum { READ_WORK = 130 };
// Of the work, when all cores meet first.
#define FIRST_MEETING 0.75
// What memory costs in an attempt, of its price.
enum { RATIO_COUNT = 3 };
static const double RATIOS[RATIO_COUNT] = {1, 1.15, 1.3};

double strategy_gap(const struct strategy_answer *answer)
{
    double cost = (double)answer->value.cost;
    return cost > 0 ? (cost - (double)answer->bound) / cost : 0;
}

static void say(struct strategy_solver *solver, const char *what)
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

static int cores_of(const struct strategy_solver *solver)
{
    return solver->options->workers > 1 ? solver->options->workers : 1;
}

bool solver_is_over(struct strategy_solver *solver, double share)
{
    assert(solver->budget > 0);
    if (solver->is_proven) return true;
    if ((double)(solver->work + search_work(solver->search)) >= share * (double)solver->budget) {
        return true;
    }
    double took_s = (double)(clock() - solver->started) / CLOCKS_PER_SEC;
    solver->is_cut = took_s > 2 * solver->options->time_limit_s * cores_of(solver) + 1;
    return solver->is_cut;
}

static double priced_cost(const struct strategy_solver *solver)
{
    const struct choice_model *model = solver->model;
    double sum = solver->state->cost + (double)solver->state->forbidden * REDUCED_FORBIDDEN;
    for (int i = 0; i < model->node_count; i++)
        sum += solver->priced[model->starts[i] + solver->state->choice[i]];
    return sum;
}

// Sweeps at fixed prices, now and then rounded in every order; the cheapest at these prices stays.
static void round_all(struct strategy_solver *solver)
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
    assert(isfinite(least) && "one of the roundings was kept");
    state_set(solver->state, kept);
}

static void keep_best(struct strategy_solver *solver)
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

static double work_share(const struct strategy_solver *solver)
{
    return (double)(solver->work + search_work(solver->search)) / (double)solver->budget;
}

// At the dual's prices, until little is gained.
static void descend(struct strategy_solver *solver, double share)
{
    double end = fmin(share, work_share(solver) + 0.15);
    double before = priced_cost(solver);
    while (!solver_is_over(solver, end)) {
        double next = fmin(end, work_share(solver) + 0.02);
        while (!solver_is_over(solver, next))
            search_step(solver->search, SEARCH_PRICED);
        double after = priced_cost(solver);
        if (after > before - 0.001 * fabs(before)) break;
        before = after;
    }
    say(solver, "descent");
}

// Of what is exceeded, at the dual's prices there: a little more than memory is worth.
static double first_excess_price(const struct strategy_solver *solver)
{
    const struct choice_state *state = solver->state;
    double sum = 0;
    for (int t = 0; t < solver->model->point_count; t++)
        sum += solver->best_prices[t] * fmax(0, state->used[t] - solver->model->room[t]);
    double least = 1e-3 * fabs(solver->target) / fmax(state->excess, 1);
    return fmax(1.5 * sum / fmax(state->excess, 1), least);
}

static void repair(struct strategy_solver *solver, double share)
{
    struct choice_state *state = solver->state;
    state_set(state, state->choice);
    solver->search->excess_price = first_excess_price(solver);
    double before = state->excess;
    for (int64_t step = 1;
         (state->excess > 0 || state->forbidden > 0) && !solver_is_over(solver, share); step++) {
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

// Less cost until little is gained by a slice of work.
static void lessen(struct strategy_solver *solver, double share)
{
    static const double SLICE = 0.01, LITTLE = 2e-4;
    struct choice_state *state = solver->state;
    solver->search->trade = 0;
    for (double before = INFINITY;
         before - state->cost > LITTLE * fabs(before) || !isfinite(before);) {
        double next = fmin(share, work_share(solver) + SLICE);
        before = state->cost;
        while (!solver_is_over(solver, next))
            search_step(solver->search, SEARCH_FEASIBLE);
        if (solver_is_over(solver, share)) break;
    }
    state_set(state, state->choice);
    keep_best(solver);
}

// Less memory where it is dear, for which other choices have use then.
static void trade(struct strategy_solver *solver, double ratio, double end)
{
    solver->search->trade = ratio;
    while (!solver_is_over(solver, end))
        search_step(solver->search, SEARCH_FEASIBLE);
    state_set(solver->state, solver->state->choice);
    say(solver, "trade");
}

// Past the limit and back: for a while as the dual's prices say, at another ratio each time, then
// repaired. What cannot be repaired is given up.
static void cross(struct strategy_solver *solver, double ratio, double end)
{
    static const double REPAIR = 0.04;
    solver_price(solver, ratio);
    while (!solver_is_over(solver, end))
        search_step(solver->search, SEARCH_PRICED);
    repair(solver, end + REPAIR);
    solver_price(solver, 1);
    if (solver->state->excess > 0 || solver->state->forbidden > 0)
        state_set(solver->state, solver->best);
}

// Less cost, and in turn less memory or more than there is, to come by other choices.
static void better(struct strategy_solver *solver, double share)
{
    static const double SLICE = 0.01, TRADES[] = {1, 0.5, 0.75, 0.25};
    static const double CROSSES[] = {1, 1.3, 0.8, 1.15};
    enum { TURNS = 4, FAR = 3 };
    for (int i = 0;; i++) {
        lessen(solver, share);
        say(solver, "search");
        if (solver_is_over(solver, share)) break;
        double end = fmin(share, work_share(solver) + SLICE);
        search_pool_put(solver->search, solver->arena, solver->state->choice);
        if (solver->state->cost > 1.003 * solver->best_cost) state_set(solver->state, solver->best);
        if (i % FAR == FAR - 1)
            cross(solver, CROSSES[i / FAR % TURNS], end);
        else
            trade(solver, TRADES[i % TURNS], end);
    }
    if (solver->state->cost > solver->best_cost) state_set(solver->state, solver->best);
}

// Costs of edges: what reading and reducing take grows with these.
static int64_t problem_entries(const struct strategy_problem *problem)
{
    return problem->edge_costs.starts[problem->edge_count];
}

static void start(struct strategy_solver *solver)
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
    solver->slope_squares = ARENA_NEW(arena, double, model->point_count);
    solver->priced = ARENA_NEW(arena, double, model->choice_count);
    solver->rounded = ARENA_NEW(arena, int, model->node_count);
    solver->best = ARENA_NEW(arena, int, model->node_count);
    solver->best_cost = INFINITY;
    solver->best_bound = -INFINITY;
    solver->bound = INT64_MIN;
    solver->eta = 1;
    for (int p = 0; p < model->part_count; p++)
        solver->pricing_work += model_choices(model, model->part_nodes[p]);
    if (solver->pricing_work <= 2 * model->entry_count) solver->pricing_work = 0;
    // However short the limit, a tenth of it is searched.
    double whole = solver->options->time_limit_s * STRATEGY_RATE;
    double read = (double)(READ_WORK * problem_entries(solver->problem));
    solver->budget = (int64_t)fmax(whole - read, whole / 10) + 1;
    dual_sweep(solver->dual, true, solver->rounded);
    dual_sweep(solver->dual, false, NULL);
    solver->target = 1.05 * solver->dual->bound;
}

// What GLPK can prove is not searched.
static bool solve_exactly(struct strategy_solver *solver, struct strategy_answer *answer)
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
static void mix(struct strategy_solver *solver)
{
    enum { COPIES = 6 };
    for (int i = 0; i < COPIES; i++)
        search_pool_put(solver->search, solver->arena, solver->state->choice);
    if (solver->state->cost > solver->best_cost) state_set(solver->state, solver->best);
}

// The bound of the best prices, whose messages are those of the prices that were tried last: swept
// until they are as good, within a thirtieth of the budget.
static void certify(struct strategy_solver *solver)
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

// Another core's search, which begins with what the first one has bounded so far.
struct helper {
    struct strategy_solver solver;
    struct strategy_options options;
    struct arena arena;
    const struct strategy_solver *first;
    pthread_t thread;
};

// A choice from the dual's messages, bettered where memory costs `ratio` of its price and brought
// within the limit: dearer memory leaves less to repair, cheaper memory less to win back.
static void attempt(struct strategy_solver *solver, double ratio, double end)
{
    static const double ALONE = 0.02;
    round_all(solver);
    solver_price(solver, ratio);
    descend(solver, end);
    repair(solver, end);
    solver_price(solver, 1);
    if (solver->state->excess > 0 || solver->state->forbidden > 0) return;
    better(solver, fmin(end, work_share(solver) + ALONE));
    search_pool_put(solver->search, solver->arena, solver->best);
}

// The search of one round at the prices that are, from the best of some attempts.
static void search_round(struct strategy_solver *solver, const double *ratios, int count,
                         double end)
{
    for (int i = 0; i < count; i++)
        attempt(solver, ratios[i], end);
    if (!isfinite(solver->best_cost)) return;
    state_set(solver->state, solver->best);
    better(solver, end);
}

// All cores leave with the best choice that one of them has.
static void meet(struct strategy_solver *solver)
{
    if (!solver->meeting) return;
    double least = meeting_best(solver->meeting, solver->who, solver->best_cost, solver->best);
    if (least >= solver->best_cost) return;
    solver->best_cost = least;
    solver->target = fmin(solver->target, least);
    search_pool_put(solver->search, solver->arena, solver->best);
    state_set(solver->state, solver->best);
}

// From a share of the work to its end, with a meeting after every twentieth.
static void search_together(struct strategy_solver *solver, const struct strategy_solver *first)
{
    enum { MEETINGS = 6, MIXED = 3 };
    for (int i = 1; i <= MEETINGS; i++) {
        double share = 1 - 0.05 * (MEETINGS - i);
        if (isfinite(solver->best_cost)) better(solver, share);
        meet(solver);
        if (i == 1 && first != solver) {
            memcpy(solver->prices, first->best_prices,
                   (size_t)solver->model->point_count * sizeof(double));
            solver_price(solver, 1);
        }
        if (i == MIXED && isfinite(solver->best_cost)) mix(solver);
    }
}

static void *help(void *context)
{
    struct helper *helper = context;
    search_round(&helper->solver, RATIOS, RATIO_COUNT, FIRST_MEETING);
    search_together(&helper->solver, helper->first);
    arena_free(&helper->solver.scratch);
    return NULL;
}

static void start_helper(struct strategy_solver *first, struct helper *helper, int who)
{
    assert(who >= 1 && first->meeting);
    helper->options = *first->options;
    helper->options.log = NULL;
    helper->options.seed += (uint64_t)who * 1000003;
    helper->first = first;
    helper->solver = (struct strategy_solver){
        .arena = &helper->arena,
        .problem = first->problem,
        .options = &helper->options,
        .reduced = first->reduced,
        .model = first->model,
        .started = first->started,
        .who = who,
        .meeting = first->meeting,
    };
    struct strategy_solver *solver = &helper->solver;
    start(solver);
    solver->work = first->work;
    solver->target = first->target;
    solver->best_bound = first->best_bound;
    memcpy(solver->prices, first->prices, (size_t)first->model->point_count * sizeof(double));
    memcpy(solver->best_prices, first->prices, (size_t)first->model->point_count * sizeof(double));
    dual_copy(solver->dual, first->dual);
    solver_price(solver, 1);
}

// The other cores begin; how many did.
static int start_helpers(struct strategy_solver *solver, struct helper *helpers, int count)
{
    int started = 0;
    if (count > 0)
        solver->meeting = meeting_new(solver->arena, count + 1, solver->model->node_count);
    for (int i = 0; i < count; i++)
        start_helper(solver, &helpers[i], i + 1);
    while (started < count &&
           pthread_create(&helpers[started].thread, NULL, help, &helpers[started]) == 0)
        started++;
    for (int i = started; i < count; i++) {
        meeting_leave(solver->meeting);
        arena_free(&helpers[i].solver.scratch);
    }
    return started;
}

static void solve_model(struct strategy_solver *solver)
{
    static const struct {
        double dual, end;  // shares of the budget
        const double *ratios;
        int ratio_count;
    } ROUNDS[] = {{0.15, 0.24, RATIOS + RATIO_COUNT - 1, 1}, {0.5, FIRST_MEETING, RATIOS, 2}};
    int count = cores_of(solver) - 1, started = 0;
    struct helper *helpers = ARENA_NEW(solver->arena, struct helper, count);
    for (int round = 0; round < 2 && !solver->is_proven; round++) {
        solver_ascend(solver, ROUNDS[round].dual);
        say(solver, "dual");
        if (round == 0) started = start_helpers(solver, helpers, count);
        search_round(solver, ROUNDS[round].ratios, ROUNDS[round].ratio_count, ROUNDS[round].end);
        // What is not within the limit yet is nearer to it than any rounding.
        mix(solver);
    }
    // However long it takes to find any.
    if (!isfinite(solver->best_cost)) repair(solver, 1);
    search_together(solver, solver);
    for (int i = 0; i < started; i++) {
        pthread_join(helpers[i].thread, NULL);
        solver->is_cut |= helpers[i].solver.is_cut;
    }
    for (int i = 0; i < count; i++)
        arena_free(&helpers[i].arena);
    if (solver->meeting) meeting_end(solver->meeting);
    if (!solver->is_proven) certify(solver);
}

struct strategy_answer strategy_solve(struct arena *arena, const struct strategy_problem *problem,
                                      const struct strategy_options *options)
{
    assert(options->time_limit_s >= 0);
    struct strategy_answer answer = {0};
    struct strategy_solver solver = {
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
