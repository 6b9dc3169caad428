#pragma once
#include <stdbool.h>

// A progress line on a terminal's stderr, at most five times a second, erased at the end. Off when
// stderr is no terminal or NO_COLOR... is set to suppress it; then nothing is written.

struct progress {
    bool on;
    double last_s;
};

struct progress progress_start(void);
void progress_show(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void progress_end(struct progress *progress);

// Seconds of a monotonic clock; for progress and benchmarks, never for results.
double clock_s(void);
