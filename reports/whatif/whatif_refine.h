#pragma once
#include "reports/whatif/whatif.h"

// Sizes between those of a sweep. A list that doubles steps over most sizes, and the cheapest in
// time or the fastest for the money may be one of them: a question with a limit goes on until none
// between can be better. What no plan can be is left out by a bound that knows nothing of plans: no
// device computes faster than its peak, and no run is shorter than without interruptions. Of the
// others only plans that are fast enough to be the answer are searched.

enum {
    WHATIF_BETWEEN_MAX = 256,        // sizes asked in one round
    WHATIF_REFINED_ROWS_MAX = 4096,  // a sweep of more is not refined
};

// Whether the question has a limit, so that sizes between may answer it better.
bool whatif_has_limit(const struct whatif_question *question);

// The sizes to ask next, of what `whatif` holds; none: the answer is final, and `*untried` sizes
// may be better, 0 unless the first round had more than WHATIF_BETWEEN_MAX. Those are then every
// second, third ... size, and later rounds close in on the best of them. Between two counts of GPUs
// past a node stand whole nodes. ERR_USAGE as sweep_points. All lives in `arena`.
MUST_CHECK bool whatif_between(struct arena *arena, const struct whatif *whatif, bool is_first,
                               struct sweep_points *more, int *untried, struct err *err);
