#pragma once
#include "core/json.h"

// How far measured steps lay from predicted ones: the ratios measured / predicted between which 90
// % of the published runs of a device and stack fell. cost_models/bands.json; every row says from
// which runs it comes. A pair without rows of its own takes the widest row that covers it.

struct band {
    const char *device, *stack;  // "*" = any
    const char *models;          // "dense" or "mixture" (of experts)
    double low_ratio, high_ratio;
    int row_count;  // measured runs behind it
    const char *source;
};

struct bands {
    struct band *rows;
    int count;
};

MUST_CHECK const struct bands *bands_load(struct arena *arena, struct err *err);

// The most particular row for these models: device and stack, then device, then stack, then any.
const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *models);
// "mixture" for a model with experts, else "dense".
const char *band_models(int64_t expert_count);
