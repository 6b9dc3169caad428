#pragma once
#include "plan/parallel.h"

// How large a global batch an optimizer is known to bear before the solution gets worse. The
// planner never changes the batch (convergence depends on it); past the known limit it says so.

// The most samples of a step: no batch that nobody asked for is larger.
int64_t batch_limit(enum optimizer optimizer);

// One line, or NULL when the batch is within what the optimizer is known to bear.
const char *batch_warning(struct arena *arena, const struct workload *workload);

// Steps that so many samples (here sequences), each seen in every epoch, make in batches of this
// size; the last batch may be smaller.
int64_t batch_iterations(double samples, double epochs, int64_t batch);
// A table of batches from an eighth to eight times that of the workload, with the steps that each
// makes of them, and which are past what the optimizer is known to bear.
const char *batch_table(struct arena *arena, const struct workload *workload, double samples,
                        double epochs);
