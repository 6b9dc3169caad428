#pragma once
#include "models/onnx.h"
#include "models/onnx/wire.h"

// A graph that is there as messages already: what onnx_read does once it has decoded its bytes.
MUST_CHECK struct onnx_graph *onnx_read_graph(struct arena *arena, const char *path,
                                              const Onnx__GraphProto *graph,
                                              const struct onnx_options *options, struct err *err);
