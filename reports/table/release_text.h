#pragma once
#include "simulator/evaluate.h"

// Of a plan for an earlier release of its software: what the same plan takes on each newer one, and
// what that changed. Empty for the newest, and where releases are not told apart. Lives in `arena`.
const char *release_text(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation);

// What changed between two releases, by the names of the stack's file: "expert_graph,
// expert_fusion".
const char *release_changes_text(struct arena *arena, const struct stack_release *older);
// Which of the earlier releases a name ("26.04", "26.04+BUILD") begins with; -1: none, a build
// alone is no older.
int release_index(const struct stack *newest, const char *name);
// Seconds of a step of the request's plan on another stack; 0: it cannot run it.
double release_step_s(struct arena *arena, const struct evaluation_request *request,
                      const struct stack *stack, bool has_experts);
