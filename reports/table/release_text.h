#pragma once
#include "simulator/evaluate.h"

// Of a plan for an earlier release of its software: what the same plan takes on each newer one, and
// what that changed. Empty for the newest, and where releases are not told apart. Lives in `arena`.
const char *release_text(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation);
