#pragma once
#include "validation/band_make.h"

// Of every sweep of two rows or more, predicted by constants fitted without their family: the row
// predicted best (of equal ones their mean), its log(measured / predicted) less the mean of the
// sweep. Above 0 the best came out slower than it was predicted beside the others.
// Sweeps of one family err alike, so that families weigh alike, and the error is that of their
// mean. sweep_count 0 where fewer than two families have a sweep.
struct selection_band selection_make(struct arena *arena, const struct residuals *residuals,
                                     const char *source);
