#pragma once
#include "models/import.h"

// A model as a framework exported it: ONNX, a program of torch.export (.pt2) or StableHLO, told by
// the ending of the file.

bool exported_is(const char *path);

// What is recognised as the stack of layers of a config is that model, whatever the length of the
// sequences it was exported with; what is not is planned as blocks of its operators. NULL and `err`
// where the file is wrong or neither. In `arena`; `name` names the result.
struct model_config *exported_load(struct arena *arena, const char *path, const char *name,
                                   void (*warn)(void *context, const char *line), void *context,
                                   struct err *err);
