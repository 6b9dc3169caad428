#pragma once
#include "core/json_write.h"
#include "cost_models/money.h"
#include "simulator/inject.h"

// "rank 137 x1.2", "node 3: NICs at 50.0 %".
const char *inject_cause_text(struct arena *arena, const struct injection_cause *cause);

// What `simulate` says of a plan with something injected. `planned` is what `tokens` cost without
// it, `injected` with it; 0 tokens: none are asked for.
char *inject_text(struct arena *arena, const struct injection *injection,
                  const struct injection_result *result, const struct money *planned,
                  const struct money *injected, double tokens);
// "injection": {...}
void inject_write(struct json_writer *writer, const struct injection *injection,
                  const struct injection_result *result, const struct money *injected);
