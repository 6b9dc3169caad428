#pragma once
#include "planner/idle.h"

// What is said of counts of GPUs that are slower than smaller ones. Texts live in `arena`.

// `best_s` is INFINITY where all GPUs have no plan that fits.
// "960 of the 1,000 GPUs do it in 94.6 s (-41.0 %): --idle ok leaves 40 idle"
const char *idle_hint_text(struct arena *arena, const struct search_request *request,
                           const struct idle_hint *hint, double best_s);
// The lines under a table of --idle ok.
const char *idle_answer_text(struct arena *arena, const struct search_request *request,
                             const struct idle_answer *answer, const struct search_result *result);
