#pragma once
#include "validation/band_make.h"
#include "validation/fit.h"

// What a fit leaves for bands and for the file of left-out predictions: of each fitted row what was
// predicted without its family and without its device.

// Rows that were not left out both ways have no residual. Lives in `arena`.
struct residuals fit_residuals(struct arena *arena, const struct fit_result *result);

// The text of left_out.json. `bands`: one a residual, in their order (bands_left_out).
const char *fit_left_out_text(struct arena *arena, const struct fit_result *result,
                              const struct band *bands, const char *source);
