#pragma once
#include "plan/tables/placement.h"

// What a placement may hold and `run` does not execute; NULL: it runs all of it. The planner asks
// the same for the stack that is ours, so that it proposes nothing that `run` refuses.
const char *table_unexecuted(const struct table_placement *placement,
                             const struct table_workload *workload);
#define TABLE_OWN_STACK "meshwright"
