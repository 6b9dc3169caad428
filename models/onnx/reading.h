#pragma once
#include "models/onnx/model.h"

// Which numbers a call takes where it computes nothing; NULL where it is none of these. In `arena`.
const struct onnx_reading *reading_of(struct arena *arena, const struct onnx_model *model,
                                      const struct onnx_call *call);
