#pragma once
#include "planner/ranking.h"

// The best plan of one tail.
struct pick {
    struct candidate plan;
    bool found;
};

// Takes the plan where it is better than what was found: of two that take equally long that which
// moves less off the device.
void pick_better(enum objective objective, struct pick *pick, const struct candidate *plan);
