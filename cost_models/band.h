#pragma once
#include "core/json.h"

// How far measured steps lay from predicted ones: the ratios measured / predicted between which 90
// % of the published runs fell, each predicted by constants fitted without its family.
// cost_models/bands.json, written by `meshwright fit`; every row says from which runs it comes.

// What a prediction rests on. Validated: runs of this device with this stack, of this kind, were
// measured (20 or more). Extrapolated: the device was measured, with another stack or kind or in
// too few runs. Datasheet: no run of this device was ever compared; its constants are from
// documents.
enum confidence { CONFIDENCE_VALIDATED, CONFIDENCE_EXTRAPOLATED, CONFIDENCE_DATASHEET };
const char *confidence_name(enum confidence confidence);

struct band {
    const char *device, *stack;  // "*" = any
    const char *kind;            // "dense", "dense-narrow" (fp8, fp4) or "mixture" (of experts)
    enum confidence confidence;  // of predictions that take this row
    double low_ratio, high_ratio;
    int row_count, family_count;  // measured runs behind it, and how many sources they came from
    const char *source;
};

struct bands {
    struct band *rows;
    int count;
};

MUST_CHECK const struct bands *bands_load(struct arena *arena, struct err *err);

// The most particular row for this kind. A device or stack that no row names takes the widest row
// that covers it.
const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *kind);
// "mixture" for a model with experts, else by the width of the products.
const char *band_kind(int64_t expert_count, bool narrow);
