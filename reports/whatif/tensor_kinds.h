#pragma once
#include "reports/whatif/scenario.h"

// The ways to lay out tensor parallel ranks (enum tp_kind), side by side on one cluster: the best
// plan of each, and what its ranks move of a layer over which links.

struct tensor_kind {
    struct scenario_outcome outcome;
    // Received by a rank of the layer that there are most of, in a step: over tensor parallel
    // groups that lie inside a node, and over those that do not. Copies of plans that fit alone.
    double inside_bytes, between_bytes;
};

struct tensor_kinds {
    struct tensor_kind kinds[TP_KIND_COUNT];
    int best;   // the fastest; -1: none
    int other;  // what it is compared with: 1D, else the next; -1: none
};

// The pins of `scenario` hold the degree of tp and leave its kind open.
MUST_CHECK bool tensor_kinds_find(struct arena *arena, const struct scenario_request *request,
                                  const struct scenario *scenario, struct tensor_kinds *found,
                                  struct err *err);

// Why the best is the best, one line; NULL: nothing fits, or one alone does.
const char *tensor_kinds_why(struct arena *arena, const struct tensor_kinds *found);
