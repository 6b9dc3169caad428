#pragma once
#include "models/onnx/model.h"

// The number that a kernel of this call wants beside its tensors (struct op_work). NaN: what the
// call says is done by no kernel, or it has attributes that kernels do not know.
double scalar_of(const struct onnx_model *model, const struct onnx_call *call);
// Whether a softmax is over the last dimension alone. Before opset 13 one that names no axis is
// over all from the second on.
bool softmax_is_of_last(const struct onnx_model *model, const struct onnx_call *call);
