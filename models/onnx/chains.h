#pragma once
#include "models/onnx/model.h"

// Chains of calls that a framework runs as one kernel, whose backward reads what the first of them
// is given and nothing in between: written as that one, so that nothing between them is kept.
// Behind the inference of shapes, before it is known what runs.
void chains_join(struct onnx_model *model);
