#pragma once
#include "planner/strategy/model.h"

// A lower bound on the cost of every choice, by sequential message passing (Kolmogorov 2006, TRW-S)
// on costs to which each point of time adds a price for what is used (Lagrange multipliers). A
// message moves cost between a node and an edge, so that at any time the sum of the least costs
// of all nodes and edges, less the price of the whole limit, bounds the cost from below.

struct dual {
    const struct choice_model *model;
    double *prices;    // [point_count], not below 0
    double *reduced;   // [choice_count]: cost, price and all messages to the node
    double *messages;  // what each end has moved to the edge
    double constant;   // moved out of the nodes
    double bound;      // after the last sweep
    double *scratch;   // [choices_most] twice
};

struct dual *dual_new(struct arena *arena, const struct choice_model *model);
// Takes over what another one of the same model has come to.
void dual_copy(struct dual *dual, const struct dual *from);
// One pass over the nodes, onwards or back; `rounded` (may be NULL) gets a choice made on the way.
void dual_sweep(struct dual *dual, bool onwards, int *rounded);
// Sets prices; messages stay.
void dual_set_prices(struct dual *dual, struct arena *scratch, const double *prices);
// What the prices add to each choice.
void dual_price_choices(const struct choice_model *model, struct arena *scratch,
                        const double *prices, double *added);
// The same bound in whole numbers: prices and messages are rounded to 2^-40 of a unit and
// everything is added up in 128 bits. Rounded up to the next unit, as costs are whole.
int64_t dual_certified(const struct dual *dual, struct arena *scratch);
