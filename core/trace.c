#include "core/trace.h"
#include "core/gzip.h"
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

// A thread of the viewer: spans of one name on one stream, none of which overlaps another.
struct track {
    enum stream stream;
    const char *name;
    int number;  // of those of this name
    int thread;
    int64_t end_ns;
};

struct rank_tracks {
    struct track *list;
    int count, capacity;
};

struct output {
    const struct trace *trace;
    struct file_writer *file;
    struct gzip_writer *packer;  // NULL: the file is plain
    const char *before;          // what parts this event from the last
    struct arena tracks_arena, scratch;
    struct rank_tracks *tracks;  // [rank]
    int *threads;                // [span]
};

static void put(struct output *output, const char *text)
{
    if (output->packer)
        gzip_put(output->packer, text, strlen(text));
    else
        file_put(output->file, text, strlen(text));
}

static void put_event(struct output *output, const char *event)
{
    put(output, output->before);
    put(output, event);
    output->before = ",\n";
}

static const char *quoted(struct arena *scratch, const char *text)
{
    struct json_writer writer = {.arena = scratch};
    json_put_text(&writer, NULL, text);
    return writer.text;
}

// Whole nanoseconds as microseconds, exact: a double would round late in a long step.
static const char *microseconds(struct arena *scratch, int64_t ns)
{
    assert(ns >= 0);
    return arena_print(scratch, "%lld.%03lld", (long long)(ns / 1000), (long long)(ns % 1000));
}

static void put_processes(struct output *output)
{
    const struct trace *trace = output->trace;
    struct arena *scratch = &output->scratch;
    for (int rank = 0; rank < trace->rank_count; rank++) {
        if (trace->appears && !trace->appears[rank]) continue;
        struct arena_mark mark = arena_mark(scratch);
        const char *name = trace->rank_name ? trace->rank_name(trace->context, rank, scratch)
                                            : arena_print(scratch, "rank %d", rank);
        put_event(output, arena_print(scratch,
                                      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,"
                                      "\"args\":{\"name\":%s}}",
                                      rank, quoted(scratch, name)));
        put_event(output, arena_print(scratch,
                                      "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
                                      "\"args\":{\"sort_index\":%d}}",
                                      rank, rank));
        arena_reset(scratch, mark);
    }
}

static void put_track(struct output *output, int rank, const struct track *track)
{
    struct arena *scratch = &output->scratch;
    const char *name = track->name;
    if (track->number > 1) name = arena_print(scratch, "%s (%d)", name, track->number);
    put_event(output, arena_print(scratch,
                                  "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,"
                                  "\"tid\":%d,\"args\":{\"name\":%s}}",
                                  rank, track->thread, quoted(scratch, name)));
    put_event(output, arena_print(scratch,
                                  "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,"
                                  "\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                                  rank, track->thread, track->thread));
}

// The first track of its name that is free again when the span begins; a new one where none is.
static struct track *track_of(struct output *output, const struct span *span)
{
    enum { THREADS_PER_STREAM = 100 };
    const struct trace *trace = output->trace;
    struct rank_tracks *own = &output->tracks[span->rank];
    const char *name = trace->track_name ? trace->track_name(trace->context, span) : NULL;
    if (!name) name = stream_name(span->stream);
    int of_stream = 0, of_name = 0;
    for (int i = 0; i < own->count; i++) {
        struct track *track = &own->list[i];
        if (track->stream != span->stream) continue;
        of_stream++;
        if (strcmp(track->name, name) != 0) continue;
        of_name++;
        if (track->end_ns <= span->start_ns) return track;
    }
    ARENA_GROW(&output->tracks_arena, own->list, own->count, own->capacity);
    struct track *track = &own->list[own->count++];
    *track = (struct track){span->stream, name, of_name + 1,
                            (int)span->stream * THREADS_PER_STREAM + of_stream, 0};
    put_track(output, span->rank, track);
    return track;
}

// A writer ends a document with a newline; here it is a member.
static const char *closed(struct json_writer *writer)
{
    json_close(writer, '}');
    writer->text[strcspn(writer->text, "\n")] = '\0';
    return writer->text;
}

static const char *args_text(struct output *output, int64_t index)
{
    const struct trace *trace = output->trace;
    struct json_writer args = {.arena = &output->scratch};
    json_open_flat(&args, NULL, '{');
    json_put_i64(&args, "task", trace->spans[index].task);
    if (trace->span_args) trace->span_args(trace->context, index, &args);
    return closed(&args);
}

static void put_part(struct output *output, const struct span *span, int thread,
                     const struct span_part *part)
{
    struct arena *scratch = &output->scratch;
    assert(span->start_ns <= part->start_ns && part->start_ns <= part->end_ns);
    assert(part->end_ns <= span->end_ns);
    struct json_writer args = {.arena = scratch};
    double s = (double)(part->end_ns - part->start_ns) / 1e9;
    json_open_flat(&args, NULL, '{');
    if (part->flop > 0) json_put_f64(&args, "flop", part->flop);
    if (part->bytes > 0) json_put_f64(&args, "bytes", part->bytes);
    if (part->flop > 0 && s > 0) json_put_f64(&args, "flop_per_s", part->flop / s);
    if (part->bytes > 0 && s > 0) json_put_f64(&args, "bytes_per_s", part->bytes / s);
    put_event(output,
              arena_print(scratch,
                          "{\"name\":%s,\"cat\":\"operator\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
                          "\"ts\":%s,\"dur\":%s,\"args\":%s}",
                          quoted(scratch, part->name), span->rank, thread,
                          microseconds(scratch, part->start_ns),
                          microseconds(scratch, part->end_ns - part->start_ns), closed(&args)));
}

static void put_span(struct output *output, int64_t index)
{
    const struct trace *trace = output->trace;
    const struct span *span = &trace->spans[index];
    struct arena *scratch = &output->scratch;
    assert(span->start_ns <= span->end_ns);
    assert(span->rank >= 0 && span->rank < trace->rank_count);
    assert(!trace->appears || trace->appears[span->rank]);
    struct track *track = track_of(output, span);
    track->end_ns = span->end_ns;
    output->threads[index] = track->thread;
    const char *name = trace->task_name(trace->context, span, scratch);
    put_event(output, arena_print(scratch,
                                  "{\"name\":%s,\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
                                  "\"ts\":%s,\"dur\":%s,\"args\":%s}",
                                  quoted(scratch, name), stream_name(span->stream), span->rank,
                                  track->thread, microseconds(scratch, span->start_ns),
                                  microseconds(scratch, span->end_ns - span->start_ns),
                                  args_text(output, index)));
    struct span_part *parts = NULL;
    int count = 0;
    if (trace->span_parts) count = trace->span_parts(trace->context, index, scratch, &parts);
    for (int i = 0; i < count; i++)
        put_part(output, span, track->thread, &parts[i]);
}

// An arrow is two events of one number: where it leaves, and where it arrives ("bp":"e": in the
// slice that is there, not in the next one).
static void put_flow(struct output *output, int64_t number)
{
    const struct trace_flow *flow = &output->trace->flows[number];
    struct arena *scratch = &output->scratch;
    const int64_t ends[] = {flow->from, flow->to};
    const int64_t at_ns[] = {flow->leaves_ns, flow->arrives_ns};
    assert(flow->leaves_ns <= flow->arrives_ns);
    for (int i = 0; i < 2; i++) {
        const struct span *span = &output->trace->spans[ends[i]];
        assert(span->start_ns <= at_ns[i] && at_ns[i] <= span->end_ns);
        put_event(output, arena_print(scratch,
                                      "{\"name\":%s,\"cat\":\"flow\",\"ph\":\"%s\"%s,\"id\":%lld,"
                                      "\"pid\":%d,\"tid\":%d,\"ts\":%s}",
                                      quoted(scratch, flow->name), i ? "f" : "s",
                                      i ? ",\"bp\":\"e\"" : "", (long long)number, span->rank,
                                      output->threads[ends[i]], microseconds(scratch, at_ns[i])));
    }
}

static void put_level(struct output *output, const struct trace_level *level)
{
    struct arena *scratch = &output->scratch;
    put_event(output, arena_print(scratch,
                                  "{\"name\":\"memory (GiB)\",\"ph\":\"C\",\"pid\":%d,\"ts\":%s,"
                                  "\"args\":{\"GiB\":%.5f}}",
                                  level->rank, microseconds(scratch, level->at_ns),
                                  level->bytes / (1024.0 * 1024.0 * 1024.0)));
}

static void put_all(struct output *output)
{
    const struct trace *trace = output->trace;
    struct arena_mark mark = arena_mark(&output->scratch);
    put(output, "[\n");
    put_processes(output);
    for (int64_t i = 0; i < trace->span_count && !output->file->error; i++) {
        put_span(output, i);
        arena_reset(&output->scratch, mark);
    }
    for (int64_t i = 0; i < trace->flow_count && !output->file->error; i++) {
        put_flow(output, i);
        arena_reset(&output->scratch, mark);
    }
    for (int64_t i = 0; i < trace->level_count && !output->file->error; i++) {
        put_level(output, &trace->levels[i]);
        arena_reset(&output->scratch, mark);
    }
    put(output, "\n]\n");
    if (output->packer) gzip_end(output->packer);
}

bool trace_write(const struct trace *trace, const char *path, struct err *err)
{
    assert(trace->rank_count > 0 || trace->span_count == 0);
    struct file_writer file;
    if (!file_open(&file, path, err)) return false;
    struct output output = {.trace = trace, .file = &file, .before = ""};
    size_t length = strlen(path);
    bool is_packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    if (is_packed) output.packer = gzip_open(&output.tracks_arena, &file);
    output.tracks = ARENA_NEW(&output.tracks_arena, struct rank_tracks, trace->rank_count);
    output.threads = ARENA_NEW(&output.tracks_arena, int, trace->span_count);
    put_all(&output);
    arena_free(&output.scratch);
    arena_free(&output.tracks_arena);
    return file_commit(&file, err);
}
