#include "core/trace.h"
#include "core/file.h"
#include "core/json_write.h"

#include <assert.h>
#include <string.h>

const char *stream_name(enum stream stream)
{
    static const char *const NAMES[STREAM_COUNT] = {"compute", "tp", "cp",  "ep",
                                                    "dp",      "pp", "h2d", "d2h"};
    assert((unsigned)stream < STREAM_COUNT);
    return NAMES[stream];
}

// Whole nanoseconds as microseconds, exact: a double would round late in a long step.
static const char *microseconds(struct arena *scratch, int64_t ns)
{
    assert(ns >= 0);
    return arena_print(scratch, "%lld.%03lld", (long long)(ns / 1000), (long long)(ns % 1000));
}

static void put_text(struct file_writer *file, const char *text)
{
    file_put(file, text, strlen(text));
}

static void put_names(struct file_writer *file, const struct trace *trace, struct arena *scratch)
{
    const char *before = "";
    for (int rank = 0; rank < trace->rank_count; rank++) {
        if (trace->appears && !trace->appears[rank]) continue;
        struct arena_mark mark = arena_mark(scratch);
        struct json_writer name = {.arena = scratch};
        json_put_text(&name, NULL,
                      trace->rank_name ? trace->rank_name(trace->context, rank, scratch)
                                       : arena_print(scratch, "rank %d", rank));
        put_text(file, arena_print(scratch,
                                   "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,"
                                   "\"args\":{\"name\":%s}}",
                                   before, rank, name.text));
        before = ",\n";
        for (int stream = 0; stream < STREAM_COUNT; stream++) {
            put_text(file, arena_print(scratch,
                                       ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,"
                                       "\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                                       rank, stream, stream_name((enum stream)stream)));
        }
        arena_reset(scratch, mark);
    }
}

static void put_span(struct file_writer *file, const struct trace *trace, const struct span *span,
                     struct arena *scratch)
{
    assert(span->start_ns <= span->end_ns);
    assert(span->rank >= 0 && span->rank < trace->rank_count);
    assert(!trace->appears || trace->appears[span->rank]);
    struct json_writer name = {.arena = scratch};
    json_put_text(&name, NULL, trace->task_name(trace->context, span, scratch));
    put_text(file, arena_print(scratch,
                               ",\n{\"name\":%s,\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
                               "\"ts\":%s,\"dur\":%s,\"args\":{\"task\":%d}}",
                               name.text, stream_name(span->stream), span->rank, (int)span->stream,
                               microseconds(scratch, span->start_ns),
                               microseconds(scratch, span->end_ns - span->start_ns), span->task));
}

bool trace_write(const struct trace *trace, const char *path, struct err *err)
{
    assert(trace->rank_count > 0 || trace->span_count == 0);
    struct file_writer file;
    if (!file_open(&file, path, err)) return false;
    struct arena scratch = {0};
    put_text(&file, "[\n");
    put_names(&file, trace, &scratch);
    for (int64_t i = 0; i < trace->span_count && !file.error; i++) {
        struct arena_mark mark = arena_mark(&scratch);
        put_span(&file, trace, &trace->spans[i], &scratch);
        arena_reset(&scratch, mark);
    }
    put_text(&file, "\n]\n");
    arena_free(&scratch);
    return file_commit(&file, err);
}
