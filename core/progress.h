#pragma once
#include <stdbool.h>

// A progress line on a terminal's stderr, at most five times a second, erased at the end. Off when
// stderr is no terminal or NO_COLOR is set; then nothing is written.

struct progress {
    bool on;
    double start_s, last_s;
};

struct progress progress_start(void);
void progress_show(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// ", about 12 s left" once a share of the work is done that says something, else "": what was done
// until now took as long as the rest will.
enum { PROGRESS_LEFT_BYTES = 40 };
const char *progress_left(const struct progress *progress, double done_ratio,
                          char text[PROGRESS_LEFT_BYTES]);
void progress_end(struct progress *progress);

// Seconds of a monotonic clock; for progress and benchmarks, never for results.
double clock_s(void);
