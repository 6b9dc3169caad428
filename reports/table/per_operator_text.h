#pragma once
#include "planner/per_operator.h"

// What `plan --per-operator` changed and why, in lines; in `arena`.
char *per_operator_text(struct arena *arena, const struct per_operator_found *found);
