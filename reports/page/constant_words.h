#pragma once
#include "cost_models/constants.h"

// A constant as people say it: what it is, and its value with its unit.

// "matrix products reach of the peak, bf16 · h100-sxm5-80g". Lives in `arena`.
const char *constant_words(struct arena *arena, const struct constant *constant);
// The same without its owner, but for links, of which there are several kinds.
const char *constant_short_words(struct arena *arena, const struct constant *constant);
// "67.2 %", "989 TFLOP/s", "4 µs".
const char *constant_value_text(struct arena *arena, const struct constant *constant);
