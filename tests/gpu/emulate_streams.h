#pragma once
#include "executor/cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

// Streams, events and graphs of the emulated runtime. What is put on a stream is done at once, or,
// with MESHWRIGHT_EMULATED_ORDER set to a number other than 0, when something forces it to be: then
// whatever CUDA allows to run next may run next, drawn by that number. By turns only what is waited
// for runs, so late as it may, or any stream that can go on does.

// Work on a stream: `args` are copied.
void emulate_put(cudaStream_t stream, void (*run)(const void *args), const void *args, size_t size);
// tests/gpu/emulate_launches.c: a kernel of this name, which stays where it is, ran.
void emulate_launched(const char *name);
// All that has been put anywhere is done, as cudaFree and cudaMalloc wait for it.
void emulate_finish(void);
// Whether a stream is being captured: memory must stay as it is.
int emulate_is_capturing(void);

// Element `at`, of whatever number.
double emulate_read(struct reals x, int64_t at);
void emulate_write(struct reals x, int64_t at, double value);
