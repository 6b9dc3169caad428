#pragma once
#include "tests/support/run_case.h"

// The first step of a whole model as plainly as it can be computed: every block by
// tests/interpreter, the whole batch at once, every expert over every token, weights as a run left
// them. The oracle for a serial run that has not learned (learning_rate 0, one step, no clipping).

// What of the run's loss and gradients is different beyond `tolerance` of the largest value of each
// tensor; NULL: nothing. The vocabulary must have no padding.
const char *whole_model_difference(struct arena *arena, const struct run_case *of,
                                   const struct run_outcome *found, double tolerance);
