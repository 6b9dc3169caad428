#pragma once
#include "planner/space.h"

// Why a space holds no plan at all, in one line: the pin that stands in the way and the nearest
// values that would leave one. Always returns false.
bool refuse_empty(struct arena *arena, const struct search_request *request,
                  const struct space *space, struct err *err);
