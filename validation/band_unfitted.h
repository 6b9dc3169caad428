#pragma once
#include "cost_models/band.h"
#include "validation/trial.h"

// How far predictions are off for software that no constant has seen: of answered rows of these
// tiers that are asked of another stack than their own (rows_as_they_came), the 5th to 95th
// percentile of measured / predicted. Softwares weigh alike, because the runs of one err alike.
// row_count 0: there is no such row. `source` ends the band's. And the same of their peaks of
// allocated memory, of which only two softwares tell: of runs that weigh alike, where it is wider.
struct anchored_band band_unfitted_make(struct arena *arena, const struct trials *trials,
                                        const char *tiers, const char *source);
struct memory_band band_unfitted_memory(struct arena *arena, const struct trials *trials,
                                        const char *tiers, const char *source);
