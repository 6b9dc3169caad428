#pragma once
#include "cost_models/stack.h"
#include "executor/backend.h"

// The stack of our own executor, from what a back end answers: its joins, precisions, streams and
// the operators of attention that it has kernels for; from the tables of what the engine runs on
// any of them; and from the constants of reports/machine/own_constants.inc, which calibration
// replaces by what it measured (reports/machine/machine.c). cost_models/stacks/meshwright.json and
// meshwright-cpu.json are these stacks written out, for machines without the back end:
// tests/executor/test_own_stack.c.

static const char CPU_STACK[] = "meshwright-cpu", GPU_STACK[] = "meshwright";

// `backends`: the tables of one back end, the first of the widest numbers. Lives in `arena`. NULL
// and a set `err`: the stack whose constants those of a device begin as cannot be read.
MUST_CHECK struct stack *own_stack_make(struct arena *arena, const struct backend *const *backends,
                                        int backend_count, struct err *err);
