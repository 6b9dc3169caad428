#pragma once
#include "models/onnx.h"

// Programs of torch.export, as torch.export.save writes them (.pt2): a zip with the graph as JSON
// (models/NAME.json since PyTorch 2.8, serialized_exported_program.json before) and the weights
// beside it, of which nothing is read but the sizes that the graph states. Each operator of ATen
// becomes the operators of ONNX that do the same (a row of models/pt2/rules.c), and the result is
// read on as an ONNX model is: shapes, gradients and memory follow from one table for both.
//
// What neither inputs nor parameters go into (positions, masks) is a constant of the stated shape;
// buffers are constants, too. Dimensions that were exported as dynamic have the size of the example
// that they were exported with.

// NULL and ERR_INPUT, one line naming file, node and what was wanted. In `arena`.
MUST_CHECK struct onnx_graph *pt2_read(struct arena *arena, const char *path, const char *bytes,
                                       size_t byte_count, const struct onnx_options *options,
                                       struct err *err);
