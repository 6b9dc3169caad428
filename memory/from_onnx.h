#pragma once
#include "memory/graph.h"
#include "models/onnx.h"

// An ONNX model as a graph for the scheduler. Parameters and optimizer states are persistent and
// updated in place; without a backward pass the model's outputs are kept to the end. NULL and
// ERR_INPUT (starting with `place`) where sharing in it cannot be. Lives in `arena`; names are
// those of `onnx`.
MUST_CHECK struct memory_graph *memory_graph_from_onnx(struct arena *arena, const char *place,
                                                       const struct onnx_graph *onnx,
                                                       struct err *err);
