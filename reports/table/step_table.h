#pragma once
#include "simulator/evaluate.h"

// What `simulate` prints for people: where the step's seconds go (parts that sum to the step) and
// what each pipeline stage holds in memory.
char *step_table_text(struct arena *arena, const struct evaluation_request *request,
                      const struct evaluation *evaluation);
