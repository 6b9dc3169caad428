#pragma once
#include "validation/band_make.h"

// How often the order of two plans came out as predicted, by how far apart they were predicted.
// Pairs of rows of one sweep, predicted by constants fitted without their family; a pair predicted
// equal asks nothing and is left out, one measured equal is half right. A sweep weighs the root of
// its pairs, so that neither one large sweep nor many of a single pair decide. Where a larger
// difference was right less often than a smaller one, both are pooled until none is (pool adjacent
// violators, Barlow et al. 1972, Statistical Inference under Order Restrictions).
// `source` ends the source of every row, as in bands_make. NULL and a count of 0 without any pair.
struct band_pairs *band_pairs_make(struct arena *arena, const struct residuals *residuals,
                                   const char *source, int *count);
