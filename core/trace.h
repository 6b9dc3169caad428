#pragma once
#include "core/err.h"

#include <stdbool.h>
#include <stdint.h>

// A trace is what happened when: an array of spans. The simulator writes a predicted one, the
// executor a measured one; comparing them is a subtraction. Times are whole nanoseconds from the
// start of the step. Spans are ordered by (start, rank, stream, sequence).

enum stream {
    STREAM_COMPUTE,
    STREAM_TP,
    STREAM_CP,
    STREAM_EP,
    STREAM_DP,
    STREAM_PP,
    STREAM_H2D,
    STREAM_D2H,
    STREAM_COUNT
};

struct span {
    int rank;
    enum stream stream;
    int task;  // index in the program's task list; the same task has the same index in every trace
    int64_t start_ns, end_ns;
};

struct trace {
    struct span *spans;
    int64_t span_count;
    int rank_count;  // ranks that appear are below it
    const char *(*task_name)(const void *context, const struct span *span, struct arena *scratch);
    // Of the process that stands for a rank; NULL: "rank N".
    const char *(*rank_name)(const void *context, int rank, struct arena *scratch);
    const void *context;
    const bool *appears;  // [rank] whether it has a line of its own; NULL: all have
};

const char *stream_name(enum stream stream);

// Chrome trace format (the JSON array Perfetto and chrome://tracing open): one process a rank, one
// thread a stream, complete ("X") events, microseconds with nanosecond decimals. Written
// atomically.
MUST_CHECK bool trace_write(const struct trace *trace, const char *path, struct err *err);
