#pragma once
#include "models/onnx/model.h"

// A call whose inputs are all constants, or that only asks for a shape, does not run: its outputs
// are constants. Where they are small its numbers are computed as well, because shapes are made of
// them; of other operators, and of large tensors, only the shape is known.
bool fold_is_constant(const struct onnx_model *model, const struct onnx_call *call);
void fold_outputs(const struct onnx_model *model, const struct onnx_call *call);
