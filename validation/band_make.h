#pragma once
#include "cost_models/band.h"

// Bands from the errors of predictions whose constants were fitted without the row at hand.
//
// A residual is log(measured / predicted). The distribution of a new run's residual, given the
// device, the stack and the kind, is that of a Dirichlet process (Ferguson 1973, Ann. Statist. 1)
// centred at the next wider group, and so on (hierarchically: Teh et al. 2006, JASA 101):
//     F(group) = (n Own(group) + c F(wider)) / (n + c)
// Own is the distribution of the group's residuals, every family of the same weight, because the
// runs of one family err alike and a family of 95 must not decide alone; n is the number of
// families; c how many families' worth the wider group counts (chosen once, band_make.c). The wider
// group is that of the stack, then that of the kind, then all.
//
// The band reaches from the 5th to the 95th percentile of F, at ranks corrected for the finite
// number of residuals as split conformal prediction does, ceil((n + 1) 0.95) of n (Lei et al. 2018,
// JASA 113), n being Kish's effective number of the weights, (sum w)^2 / sum w^2 (Kish 1965, Survey
// Sampling).
//
// A group whose band would be narrower than that of all runs takes the ends of the latter: on the
// published runs, bands that few families had narrowed held 71 % of the next family's rows.
//
// A device without rows takes the same from residuals of predictions that knew no row of their
// device, the devices weighing alike in place of the families, and never a narrower band than runs
// of known devices take.

struct residual {
    const char *device, *stack;
    const char *kind;    // band_kind()
    const char *family;  // never split
    const char *sweep;   // equal texts: the same model, GPUs, batch, sequence and precision, run in
                         // different ways; NULL: not known
    double measured_s;
    double left_out_s;    // predicted with constants fitted without the row's family
    double device_out_s;  // predicted with constants fitted without any row of the row's device
};

struct residuals {
    struct residual *items;  // in any order
    int count;
};

// `source` ends the source of every row: what was fitted to what, when ("fit of 2026-11-21 to
// tests/validation/published.jsonl, tier A"). The same bands in whatever order the residuals come.
// Lives in `arena`; at least one residual.
const struct bands *bands_make(struct arena *arena, const struct residuals *residuals,
                               const char *source);

// For every residual, in their order, the band that bands made from all other families give its row
// (nested, one level deeper than the residuals themselves); source and confidence are those of such
// bands. At least two families. Lives in `arena`; names are the residuals'.
const struct band *bands_left_out(struct arena *arena, const struct residuals *residuals);

// What the bands promise a family that nobody has seen: how many residuals lie in the band made
// without their family. `kind` NULL: all.
struct band_coverage {
    int row_count, family_count;
    double covered_ratio;         // of the rows
    double covered_family_ratio;  // mean over the families
    double width_ratio;           // mean of high_ratio / low_ratio over the rows
};
struct band_coverage bands_coverage(const struct residuals *residuals, const struct band *left_out,
                                    const char *kind);
