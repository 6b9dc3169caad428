#pragma once
#include "core/json_write.h"
#include "simulator/routed.h"

// What `simulate --routing` prints under the step.
char *routed_text(struct arena *arena, const char *routing, const struct routed *routed);

// "routing": the same as an object.
void routed_write(struct json_writer *writer, const struct routed *routed);
