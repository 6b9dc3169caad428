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

// What viewers show beside the spans; a trace may have any of it or none.

// An arrow from one span to another: both moments lie in their spans.
struct trace_flow {
    const char *name;
    int64_t from, to;  // indices of spans
    int64_t leaves_ns, arrives_ns;
};

// What a rank holds from then on.
struct trace_level {
    int rank;
    int64_t at_ns;
    double bytes;
};

// A piece of a span, nested in it; pieces of one span follow each other or lie in each other, the
// outer one first. 0: has none of it.
struct span_part {
    const char *name;
    int64_t start_ns, end_ns;
    double flop, bytes;
};

struct json_writer;

struct trace {
    struct span *spans;
    int64_t span_count;
    int rank_count;  // ranks that appear are below it
    const char *(*task_name)(const void *context, const struct span *span, struct arena *scratch);
    // Of the process that stands for a rank; NULL: "rank N".
    const char *(*rank_name)(const void *context, int rank, struct arena *scratch);
    const void *context;
    const bool *appears;  // [rank] whether it has a line of its own; NULL: all have
    // [rank of the cluster] the rank whose line stands for it, because it does the same; -1: none
    // does. NULL: every rank stands for itself alone.
    const int *shown_as;
    // Where a stream's spans run beside each other: the track of the stream that a span is on.
    // NULL, and where it returns NULL: one a stream, called as it is.
    const char *(*track_name)(const void *context, const struct span *span);
    // Puts members of the span's "args"; NULL: there are none beside the task.
    void (*span_args)(const void *context, int64_t span, struct json_writer *writer);
    // Of the span of this index; `parts` live in `scratch`. NULL: no span has any.
    int (*span_parts)(const void *context, int64_t span, struct arena *scratch,
                      struct span_part **parts);
    const struct trace_flow *flows;
    int64_t flow_count;
    const struct trace_level *levels;  // of one rank in the order of time
    int64_t level_count;
};

const char *stream_name(enum stream stream);

// Chrome trace format (the JSON array Perfetto and chrome://tracing open): one process a rank, one
// thread a track, complete ("X") events, microseconds with nanosecond decimals. Spans of one track
// that overlap all the same get a track more, because viewers drop one of two slices that do.
// A path that ends in ".gz" is packed by gzip. Written atomically.
MUST_CHECK bool trace_write(const struct trace *trace, const char *path, struct err *err);
