#pragma once
#include "planner/strategy/meet.h"
#include "planner/strategy/round.h"
#include "planner/strategy/search.h"
#include "planner/strategy/solve.h"

#include <time.h>

// A solver at work: one a core. Included by planner/strategy/solve.c and ascend.c alone.

struct strategy_solver {
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
    double *slope_squares;  // [point_count]: means
    double best_bound, target, eta;
    int stalled;
    int *rounded, *best;  // the best choice of the model
    double best_cost;     // INFINITY: none yet
    int64_t work, budget;
    int64_t pricing_work;  // of a step: usages to be priced where they outnumber what is swept
    int64_t bound;
    bool is_cut, is_proven;
    clock_t started;  // processor time, of all cores
    int who;          // of those that meet
    struct meeting *meeting;
};

bool solver_is_over(struct strategy_solver *solver, double share);
// Steps of the dual's prices until that share of the work; the best prices stay.
void solver_ascend(struct strategy_solver *solver, double share);
// What searches count at that ratio of these prices.
void solver_price(struct strategy_solver *solver, double ratio);
