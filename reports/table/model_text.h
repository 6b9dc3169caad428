#pragma once
#include "models/import.h"

// How models are called wherever something about them is printed: never without their size, so that
// a model read otherwise than it was meant is seen.

// "70.6 B parameters"; of a mixture "46.7 B parameters, 12.9 B active".
const char *parameters_text(struct arena *arena, double count, double active_count);
// "llama-3-70b (70.6 B parameters)", "mixtral-8x7b (46.7 B parameters, 12.9 B active: 2 of 8
// experts)".
const char *model_text(struct arena *arena, const char *name, const struct graph *graph);
// The same of a model whose graph is not at hand.
const char *model_config_text(struct arena *arena, const struct model_config *model);
// A sample of a model of images is a sequence of one position.
bool model_has_samples(const struct graph *graph);
// "tokens/s", or "samples/s" of such a model.
const char *model_rate_text(const struct graph *graph);
// The same of a model whose graph is not at hand.
const char *model_config_rate_text(struct arena *arena, const struct model_config *model);
