#pragma once
#include "simulator/evaluate.h"

// What a plan says of attention that goes by products though fused kernels are planned, because our
// own back end has none for it (plan/unfused.inc): a sentence without a full stop, with layers and
// reasons; "" where none does.
const char *attention_text(struct arena *arena, const struct stack *stack,
                           const struct evaluation *evaluation);
