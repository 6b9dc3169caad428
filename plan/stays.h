#pragma once
#include "plan/stages.h"

// Where the parameters of a block are between its uses, of plans whose parameters leave the device
// (plan/offload.h): fetched for each use, there from forward to backward, from backward to the next
// micro-batch's forward, both, or there for good.
enum stays { STAYS_NOT = 0, STAYS_TURN = 1, STAYS_BETWEEN = 2, STAYS_ALWAYS = 4, STAYS_COUNT };

// Blocks of a chunk that fetch, where some are asked to stay: there is one stage then, and one
// chunk; else 0.
int stays_fetching(const struct graph *graph, const struct offload *offload,
                   struct chunk_span span);
// Of a block that fetches: the n-th layer, with so many blocks behind it that fetch as well.
enum stays stays_of(const struct offload *offload, bool is_layer, int layer, int behind);
