#pragma once
#include "core/arena.h"
#include "models/graph.h"

// Everything that a graph says, as text: two models are one when their texts are. The name and the
// model_type are left out, since the same model may come from several kinds of files.
const char *graph_text(struct arena *arena, const struct graph *graph);
