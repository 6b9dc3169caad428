#pragma once
#include "memory/order/order_local.h"

// A bound for parts that are wide. While a unit runs, all that comes before it has run, nothing
// that comes behind it, and of the others a set that is closed towards what comes before. Which of
// these sets leaves least alive is a smallest cut: a buffer whose producer is on the side of what
// has run and one of whose users is not costs its bytes. No order can have less alive when the unit
// runs than that and what the unit makes; the highest over all units is the bound.

// `units` is an order of all units (those that hold most in it are asked first, and none of which
// it holds no more than the bound). Looks at `scans_left` arcs and takes off what it looked at.
// Returns the bound, at least `bound_bytes`, which is one already.
int64_t order_cut_bound(struct arena *scratch, const struct order_local *local, const int *units,
                        int64_t bound_bytes, int64_t *scans_left);

// Brings an order down where it holds most: what has run at the smallest cut there runs first, the
// rest behind. Neither before that moment nor behind it does anything hold more for it (cuts are
// submodular); between, what was run late and has to be early may. Goes on with the highest moment
// of the new order until that is as low as its cut (no order has a lower peak then) or nothing is
// gained for long. Writes the best to `units`, which is no worse than it was.
void order_cut_improve(struct arena *scratch, const struct order_local *local, int *units,
                       int64_t *scans_left);
