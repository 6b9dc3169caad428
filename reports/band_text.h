#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"

// How sure a prediction is, in words for people. Texts live in the arena; empty without bands.

// "90 % band 58.40 s to 84.12 s, validated by 65 measured dense runs (a100-sxm4-80g, fsdp)"
const char *band_text(struct arena *arena, const struct prediction *prediction);

// Which of the plans cannot be told apart from the first, because their bands overlap, and how
// often pairs of measured plans that were predicted as far apart came out in that order. Whole
// lines; empty for one plan.
const char *band_overlap_text(struct arena *arena, const struct search_result *result,
                              const struct prediction *prediction);
