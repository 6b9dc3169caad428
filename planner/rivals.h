#pragma once
#include "planner/search.h"
#include "simulator/sensitivity.h"

// Which constants decide between the plans that a search has kept: each constant of device, stack
// and fabrics at +10 % and at -10 %, every kept plan priced and played again, and another one first
// (costmodel study, section 6.6: "what would change the ranking"). What the search has dropped may
// come back at other constants as well: of that nothing is said.

struct rivals_row {
    const struct constant *constant;
    double ratio;       // 1.1 or 0.9
    int first;          // index of the plan that is then first; never 0
    double lead_ratio;  // how much longer the step of the plan that was first is than that plan's
};

struct rivals {
    int plan_count;
    struct rivals_row *rows;  // by falling lead, then in the list's order
    int count;
};

// Plans are compared by step, whatever the objective was: constants of rates do not change memory,
// and where that was the objective, or one plan alone was kept, there is no row. Lives in `arena`.
// False where `evaluate` fails.
MUST_CHECK bool rivals_find(struct arena *arena, struct arena *scratch,
                            const struct search_request *request,
                            const struct search_result *result, struct rivals *rivals,
                            struct err *err);
