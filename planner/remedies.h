#pragma once
#include "planner/search.h"

// The smallest changes that would make a plan fit, each found by a search of its own: a pin given
// up, more GPUs of the same kind, a device with more memory. Cheapest first: changes that cost
// nothing but time by that time, then hardware. Fills result->remedies; the closest plan is known.
void remedies_find(struct arena *arena, const struct search_request *request,
                   struct search_result *result);
