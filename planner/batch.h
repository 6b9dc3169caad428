#pragma once
#include "plan/parallel.h"

// How large a global batch an optimizer is known to bear before the solution gets worse. The
// planner never changes the batch (convergence depends on it); past the known limit it says so.

// One line, or NULL when the batch is within what the optimizer is known to bear.
const char *batch_warning(struct arena *arena, const struct workload *workload);
