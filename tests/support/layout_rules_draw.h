#pragma once
#include "plan/layout/rules.h"
#include "tests/support/draw.h"

// Drawn rules of operators, one for each operator with a chance of one in `one_in`, of those that
// are legal for it; sizes have no say. In the arena.
struct drawn_rules {
    struct layout_rule *rules;
    int count;
};
struct drawn_rules layout_rules_draw(struct arena *arena, struct draw *draw,
                                     const struct graph *graph, int one_in);
