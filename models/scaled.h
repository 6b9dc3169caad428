#pragma once
#include "models/import.h"

// Larger and smaller models of one shape. The rule: heads, width, feed-forward width and depth grow
// in one proportion and so does the number of key-value heads; the width of a head, the vocabulary,
// the experts and what else the config says stay. Parameters then grow with the third power, as
// from GPT-3 6.7B (32 layers, 4096 wide) to GPT-3 175B (96 layers, 12288 wide).

// Heads are a multiple of this, so that key-value heads stay whole and tensor parallelism of 8, or
// of what the model's own heads allow, has something to split. 0 and ERR_USAGE where the config
// does not say heads, width and depth.
int64_t model_scale_step(const struct model_config *config, struct err *err);
// The config of `steps` times model_scale_step heads. NULL and ERR_USAGE where that is no model of
// the family: its widths end somewhere. Lives in `arena`.
MUST_CHECK struct model_config *model_scaled(struct arena *arena, const struct model_config *config,
                                             int64_t steps, struct err *err);
