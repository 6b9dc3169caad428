#pragma once
#include "core/json_write.h"
#include "validation/headline.h"

// What `validate` prints.

// The table by family and by kind, memory, ranking, failures.
char *accuracy_table_text(struct arena *arena, const struct accuracy *accuracy);
// The `count` rows predicted worst, the worst first.
char *accuracy_worst_text(struct arena *arena, const struct accuracy *accuracy, int count);
// A line a row: TFLOP/s a GPU as the source counts them, published and predicted, and what the
// matrix units do by our count, recompute included.
char *accuracy_rates_text(struct arena *arena, const struct trials *trials);
// A line a row that publishes a step, those on most GPUs first: measured, predicted, and whether
// the measured one lies in the band.
char *accuracy_large_text(struct arena *arena, const struct trials *trials);
// All of it and one record a row.
char *accuracy_json_text(struct arena *arena, const struct accuracy *accuracy,
                         const struct left_out *left_out);
