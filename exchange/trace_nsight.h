#pragma once
#include "exchange/trace_events.h"

// What `nsys export --type sqlite` writes of a profile of Nsight Systems: kernels, copies and fills
// of every device with the stream they ran on, as slices (category "kernel", "gpu_memcpy",
// "gpu_memset"), and the steps as slices of category TRACE_STEP. Read are the tables StringIds,
// CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _RUNTIME, _GRAPH_TRACE and NVTX_EVENTS as of
// docs.nvidia.com/nsight-systems, "SQLite Export Schema Reference" (2021.5 to 2025); a table is
// there only where it has rows.
//
// A step is an NVTX range that is called so: "step", "iteration", "iter", "batch", also behind
// "train_", "training_", "global_" or "profiler", with a number behind or none; of nested ones the
// outermost. Device work counts to the step in whose time the process launched it; what was
// launched outside of all steps is left out. A device of a process is one rank, and each has each
// step of its process.

// `are_steps_told`: the caller knows how many steps the file holds; then all device work counts and
// no range is asked for. ERR_INPUT where no range is a step and nobody told; where a file is no
// such export, with what is missing; ERR_SYSTEM where there is no library of SQLite.
MUST_CHECK bool trace_nsight_read(struct arena *arena, const char *path, bool are_steps_told,
                                  struct trace_events *events, struct err *err);
