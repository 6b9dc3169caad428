#pragma once
#include "models/onnx.h"

// StableHLO as text (.mlir), as jax.jit(f).lower(...).as_text(debug_info=True) prints it: a module
// with one public function, and private ones that it calls, which are read as if they stood in its
// place. Each operator becomes the operators of ONNX that do the same (a row of
// models/stablehlo/rules.c), and the result is read on as an ONNX model is. Repetitions
// (broadcast_in_dim), new orders of dimensions and those of size 1 are written where an operator
// needs them, since ONNX repeats by itself.
//
// Weights are the arguments whose name begins with params, parameters, weights, variables, model or
// state (the name of the pytree that JAX prints: "params['head']['kernel']"), and constants of
// floats that are no repeated number; of these, what has batch_stats in its name is kept, not
// trained. A text without names has data alone, and floats among its arguments are refused. What
// neither data nor weights go into (positions, masks) is a constant of the stated shape.

// Whether the bytes begin as such a text does.
bool stablehlo_is(const char *bytes, size_t byte_count);

// NULL and ERR_INPUT, one line with file, line and column: what is wrong, or the operator that is
// not read. In `arena`.
MUST_CHECK struct onnx_graph *stablehlo_read(struct arena *arena, const char *path,
                                             const char *bytes, size_t byte_count,
                                             const struct onnx_options *options, struct err *err);
