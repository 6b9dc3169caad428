#pragma once
#include "core/err.h"

#include <stdint.h>

// The slices of a Chrome trace (the JSON array or object that Perfetto and chrome://tracing open,
// packed by gzip or not): those that `simulate --trace` and `run --trace` write, and those of
// PyTorch's profiler (Kineto; its fields are those of torch 2.1 to 2.9).

struct trace_event {
    const char *name, *category;
    double start_us, duration_us;
    double process, thread;      // numbers of the file; 0 where it says a word
    double bytes;                // of a copy; 0: not said
    const char *collective;      // "allreduce"; "": not said
    double in_count, out_count;  // elements that a collective reads and writes
    const char *dtype;           // "Float", "BFloat16"; "": not said
};

// The category of a slice that is a step of a rank.
#define TRACE_STEP "step of a rank"

struct trace_events {
    struct trace_event *items;  // in the order of the file; only complete ones ("ph": "X")
    int count, capacity;
    double *predicted;  // processes that are named "predicted, ...": the upper half of an overlay
    int predicted_count, predicted_capacity;
    int rank_count;           // whose work the file holds
    double world_size;        // that the profiler says; 0: nothing
    const char *device_name;  // of the first device; "": not said
};

// ERR_INPUT with file:line:column. All of it lives in `arena`.
MUST_CHECK bool trace_events_read(struct arena *arena, const char *path,
                                  struct trace_events *events, struct err *err);
