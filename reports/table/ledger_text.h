#pragma once
#include "cost_models/ledger.h"

// How tables name what a ledger line is of.

// "fwd", "bwd", "wgt", "recompute"; "step" of what comes once a step.
const char *ledger_phase_text(const struct ledger_line *line);
// The product as it runs, batch first where there is one; of attention batch, heads, queries (and
// keys, where there are more) and the size of a head; "" of others.
const char *ledger_shape_text(struct arena *arena, const struct ledger_line *line);
// "experts.down", and "+2" behind it where two more run in the same call.
const char *ledger_name_text(struct arena *arena, const struct ledger_line *line);
// "2.46 P", "795 GB"; "-" of nothing.
const char *ledger_amount_text(struct arena *arena, double value, const char *unit);
