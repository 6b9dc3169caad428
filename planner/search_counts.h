#pragma once
#include "planner/scan.h"

// The space of a search has optimizer states of all layers on the host or of none. On meshes where
// those of a few layers leaving make the room that is missing, all of them leaving may take so long
// that none of their plans is among the best, from which counts are bettered (planner/polish.h). So
// where the best plan moves states the space is scanned again with those of the first 1, 2, 4, ..
// layers of each stage on the host (on stages that have more than half as many), the first groups
// of each by their bounds and all of the best; and where it moves or recomputes anything once more
// with activations of all layers there, and, where it is a pipeline, for plans of one stage, whose
// counts are bettered together (planner/search_stays.h). What is found is bettered as the best of
// the space are. No bound: what else would be faster so is not known.

// Plans that take `below_s` before they are bettered are not looked at. Better plans are offered to
// the ranking; those in it stay as good.
void search_counts(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                   double below_s, struct ranking *ranking);
