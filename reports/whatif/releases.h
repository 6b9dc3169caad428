#pragma once
#include "reports/whatif/scenario.h"

// What upgrading the software gains: the best plan of each of a stack's releases on one cluster,
// and what the plan of the release that was asked for takes on it. Releases between which nothing
// is told apart are one row.

struct release_row {
    const char *newest, *oldest;        // of those in this row
    const struct stack_release *older;  // says what the row gained over the next; NULL: the last
    const struct stack *stack;          // at its newest, with the builds that were asked for
    struct scenario_outcome outcome;
    double same_plan_s;  // a step of the asked release's best plan; 0: there is none, or it cannot
                         // run it
};

struct releases {
    struct release_row *rows;  // newest first
    int count;
    int asked;  // the row of the release that was asked for
};

// ERR_USAGE where the releases of the request's stack are not told apart.
MUST_CHECK bool releases_find(struct arena *arena, const struct scenario_request *request,
                              const struct scenario *scenario, struct releases *found,
                              struct err *err);
