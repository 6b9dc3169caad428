#include "planner/pick.h"

#include <limits.h>

// Of choices that take equally long that which moves less: activations nowhere, then states
// nowhere, then fewer layers. Above 0 where `a` moves more.
static int compare_moved(const struct offload *a, const struct offload *b)
{
    if (a->activations != b->activations) return a->activations > b->activations ? 1 : -1;
    if (a->optimizer != b->optimizer) return a->optimizer > b->optimizer ? 1 : -1;
    int first = a->layers[0] < 0 ? INT_MAX : a->layers[0];
    int second = b->layers[0] < 0 ? INT_MAX : b->layers[0];
    return (first > second) - (first < second);
}

static int compare_picks(enum objective objective, const struct candidate *a,
                         const struct candidate *b)
{
    bool as_long = step_ns(a->cost.step_s) == step_ns(b->cost.step_s);
    if (objective != OBJECTIVE_MEMORY && as_long) {
        int moved = compare_moved(&a->parallel.offload, &b->parallel.offload);
        if (moved != 0) return moved;
    }
    return candidate_compare(objective, a, b);
}

void pick_better(enum objective objective, struct pick *pick, const struct candidate *plan)
{
    if (pick->found && compare_picks(objective, plan, &pick->plan) >= 0) return;
    pick->plan = *plan;
    pick->found = true;
}
