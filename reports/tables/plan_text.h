#pragma once
#include "reports/tables/plan_file.h"

// What people read of it.
char *table_plan_text(struct arena *arena, const struct place_request *request,
                      const struct place_result *result);
char *table_step_text(struct arena *arena, const struct table_plan *plan);
char *table_memory_text(struct arena *arena, const struct table_plan *plan);
// Of each table where it went: "4 x rows on ranks 0-3", at most `most` lines, largest first.
char *table_placement_text(struct arena *arena, const struct table_placement *placement, int most);
// One self-contained page.
char *table_page(struct arena *arena, const struct table_plan *plan);
// What happened when, for viewers.
struct trace table_trace(struct arena *arena, const struct table_prediction *prediction);
