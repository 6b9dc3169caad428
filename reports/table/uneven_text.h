#pragma once
#include "planner/uneven.h"
#include "simulator/evaluate.h"

// What each kind of device takes of the best plan, and what that plan is faster than: an even
// split, and each kind of device by itself. "" where all devices are alike.
const char *uneven_text(struct arena *arena, const struct search_request *request,
                        const struct search_result *result, const struct uneven_answer *answer,
                        const struct evaluation *best);
