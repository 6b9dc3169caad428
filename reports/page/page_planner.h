#pragma once
#include "reports/page/report.h"

// The planner of a page: the module that `make wasm` builds, the script that asks it, and the
// tables that a plan does not hold. `*planner` stays NULL where no module was built: then the page
// says so and stays as it is. False with a set `err` where a file that is there cannot be read.
MUST_CHECK bool page_planner_load(struct arena *arena, const struct report_planner **planner,
                                  struct err *err);
