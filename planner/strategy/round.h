#pragma once
#include "planner/strategy/dual.h"

// Choices read off a dual: node after node takes what is cheapest beside the nodes that are decided
// and the messages of those that are not, and what no longer fits it is taken from the others at
// once (arc consistency), so that a forbidden pair is rare.

enum round_order { ROUND_ONWARDS, ROUND_BACK, ROUND_BY_DEGREE, ROUND_BY_MARGIN, ROUND_ORDER_COUNT };

struct rounding;
struct rounding *rounding_new(struct arena *arena, const struct dual *dual);
void rounding_choose(struct rounding *rounding, enum round_order order, int *choice);
