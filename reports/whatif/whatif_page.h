#pragma once
#include "reports/whatif/scaling.h"

// The page of a sweep, in the style of the report's (reports/page/report.h): the answer first, then
// what time costs, the scaling curve where it was asked for, the scenarios, what was rejected. It
// needs nothing but itself. `scaling` may be NULL.
char *whatif_page(struct arena *arena, const struct whatif *whatif, const struct scaling *scaling,
                  const struct whatif_words *words, const char *version);
