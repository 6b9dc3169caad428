#pragma once
#include "planner/scan.h"

// Where the search moves states off the device of one stage, those of some layers share the room
// with gradients and activations of layers and with what is recomputed. Where it moves parameters,
// plans hold a placement by the moment as well: parameters that stay between two uses
// (plan/offload.h, turn and between) share it with those that never leave. The numbers of all of
// them are bettered together, from those of a plan and from all that leaves, of states with and
// without gradients and activations, recomputed as the plan is and in full: one count more stays,
// alone or in the place of another's, in strides that halve; of gradients only when states have no
// room to stay.
// Each is priced as a whole plan; what `memory PLAN --offload moments` does beside is to order and
// lay out the arena (planner/plan_stays.h). No bound: what else is faster so is not known.

enum { SEARCH_STAYS_PLANS = 12, SEARCH_STAYS_MOST = 300 };  // bettered; tries from each start

// Better plans take the places of those that they were made of.
void search_stays(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                  struct ranking *ranking);
