#pragma once
#include "validation/band_make.h"
#include "validation/left_out.h"
#include "validation/trial.h"

// Bands from what an earlier fit predicted without each row's family and device, and from memory,
// which no fit touches.

// The memory bands of the stacks whose rows of these tiers publish what was allocated, by name, at
// ranks corrected for their number as in bands_make: up to 19 rows the ends are the extremes. A
// stack of one family has no narrower band than the narrowest of several.
struct memory_band *memory_bands_make(struct arena *arena, const struct trials *trials,
                                      const char *tiers, const char *source, int *count);

// Bands anew from what an earlier fit predicted without each row's family and device: steps, pairs,
// selection, memory and anchored runs (anchor.h; tiers A and B). ERR_INPUT where `left_out` knows
// none of the rows' devices left out.
MUST_CHECK const struct bands *bands_remake(struct arena *arena, const struct trials *trials,
                                            const char *tiers, const struct left_out *left_out,
                                            struct err *err);
