#pragma once
#include "models/graph.h"
#include "plan/schedule.h"

// Which blocks of the sequence each chunk holds. Layers that divide go evenly; those that do not
// are split as evenly as can be with the embedding and the head counting as a layer each, so that
// the first and last stage get fewer. A multi-token prediction module is one of the layers and
// stays with the head. Pinned stage layers are kept (each stage's are then spread over its chunks;
// those of the split above mean that split).

struct chunk_span {
    int first, count;
};  // positions in graph->sequence

// Fills spans[stage * chunk_count + chunk]; NULL only checks. ERR_USAGE when there are fewer layers
// than chunks or the pinned numbers do not add up, naming what would.
MUST_CHECK bool stages_split(const struct graph *graph, const struct parallel *parallel,
                             struct chunk_span *spans, struct err *err);
// The layers of each stage as software splits them that deals out blocks by the FLOP of their
// matrix products: a stage takes blocks until those so far have more than its share of all
// (nanotron, NanotronModel's build of src/nanotron/trainer.py: embedding, layers, final norm, head,
// cast of the logits, loss; only layers and head cost anything). It may leave a stage without any
// block, which then has nothing to run: ERR_USAGE. Where head and loss come to stages of their own,
// the last has both, and a stage between that is left without a layer has one of those before it,
// since a head is one block here and a stage has one at least. stage_layers[stage_count].
MUST_CHECK bool stages_by_flop(const struct graph *graph, int stage_count, int *stage_layers,
                               struct err *err);
// Whether the plan's numbers of layers, if it has any, are those of the split that nobody pinned.
// The plan must be legal.
bool stages_are_free(const struct graph *graph, const struct parallel *parallel);
