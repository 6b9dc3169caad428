#pragma once
#include "planner/explain.h"

// The answer to --why KEY=VALUE: one sentence, then the two plans term by term.
char *explanation_text(struct arena *arena, const char *asked,
                       const struct explanation *explanation, const struct stack *stack);
