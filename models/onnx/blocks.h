#pragma once
#include "models/onnx.h"

// Any other graph as blocks of operators, for the family "operators" (models/families/operators.c).
// It is cut where one activation alone is handed on: behind what several operators read (the end of
// a residual block) and behind every operator like those, or in front of each product where there
// are no such places. Blocks that are alike but for names are stored once.
//
// Weights and their views are parameters; statistics and other constants are left out, they are
// small. Products (convolutions, matrix products) keep the sizes of the GEMM that they are, other
// operators the flops of one sample forward and backward and what their backward reads.

// More distinct blocks than this are not searched over (planner/division.h).
enum { BLOCKS_KINDS_MOST = 32 };

// The text of a config, or NULL and a line that says what cannot be planned. `graph` must have been
// read for training.
MUST_CHECK const char *onnx_blocks(struct arena *arena, const char *path,
                                   const struct onnx_graph *graph, struct err *err);
// Whether the model reads whole numbers alone, as models of tokens do.
bool onnx_reads_tokens(const struct onnx_graph *graph);
