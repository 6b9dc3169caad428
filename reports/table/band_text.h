#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"

// How sure a prediction is, in words for people. Texts live in the arena; empty without bands.

// "90 % band 58.40 s to 84.12 s, validated by 65 measured dense runs (a100-sxm4-80g, fsdp)". Runs
// of models of samples were never measured, which it then says.
const char *band_text(struct arena *arena, const struct prediction *prediction,
                      const struct graph *graph);

// "fits narrowly with 0.8 % to spare: allocated memory was measured up to 3.0 % above predictions
// (24 runs of megatron-core)". "" without a band of memory, and where the device has too little.
const char *memory_band_text(struct arena *arena, const struct prediction *prediction,
                             const struct graph *graph, const char *stack);
// How many of the plans, the first included, have bands that overlap with that of the first.
int band_overlap_count(const struct search_result *result, const struct prediction *prediction);

// What bands hold of memory and of selection, whole lines.
const char *bands_text(struct arena *arena, const struct bands *bands);

// Which of the plans cannot be told apart from the first, because their bands overlap, and how
// often pairs of measured plans that were predicted as far apart came out in that order. Whole
// lines; empty for one plan.
const char *band_overlap_text(struct arena *arena, const struct search_result *result,
                              const struct prediction *prediction);
