#pragma once
#include "validation/band_make.h"
#include "validation/fit.h"

// What `fit` prints.

// What was fitted to: "596 rows of 34 families".
char *fit_rows_text(struct arena *arena, const struct fit_result *result);
// The constants with priors and how far they moved, those that moved most first.
char *fit_constants_text(struct arena *arena, const struct fit_result *result);
// Errors before and after, and with families, sources and devices left out, by family and by kind:
// of the rows that were fitted, then a line for the others.
char *fit_errors_text(struct arena *arena, const struct fit_result *result);
// How many rows lie in the bands that were made without their family.
char *fit_coverage_text(struct arena *arena, const struct residuals *residuals,
                        const struct band *left_out);
// Constants and predictions for programs.
char *fit_json_text(struct arena *arena, const struct fit_result *result);
