#include "exchange/trace_events.h"

#include "exchange/trace_scan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Names occur many times: each is kept once.
enum { NAME_SLOTS = 4096 };

struct reader {
    struct arena *arena;
    struct trace_scan *scan;
    struct trace_events *events;
    const char *names[NAME_SLOTS];
};

// What one event says before it is known whether it counts.
struct record {
    struct trace_event event;
    char phase;
    bool is_prediction, has_start;
};

// A name that stood in the slot before is only kept once more.
static const char *keep(struct reader *reader, const char *text)
{
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    const char **slot = &reader->names[hash % NAME_SLOTS];
    if (!*slot || strcmp(*slot, text) != 0) *slot = arena_copy(reader->arena, text);
    return *slot;
}

static bool read_text(struct reader *reader, const char **into)
{
    if (scan_peek(reader->scan) != '"') return scan_skip(reader->scan);
    if (!scan_text(reader->scan)) return false;
    *into = keep(reader, reader->scan->text);
    return true;
}

static bool read_number(struct reader *reader, double *into)
{
    int next = scan_peek(reader->scan);
    bool is_number = next == '-' || (next >= '0' && next <= '9');
    return is_number ? scan_number(reader->scan, into) : scan_skip(reader->scan);
}

static bool read_args(struct reader *reader, struct record *record)
{
    struct trace_scan *scan = reader->scan;
    struct trace_event *event = &record->event;
    if (scan_peek(scan) != '{') return scan_skip(scan);
    const char *name = "";
    for (bool first = true; scan_member(scan, &first);) {
        const char *key = scan->text;
        bool done;
        if (strcmp(key, "bytes") == 0)
            done = read_number(reader, &event->bytes);
        else if (strcmp(key, "In msg nelems") == 0)
            done = read_number(reader, &event->in_count);
        else if (strcmp(key, "Out msg nelems") == 0)
            done = read_number(reader, &event->out_count);
        else if (strcmp(key, "Collective name") == 0)
            done = read_text(reader, &event->collective);
        else if (strcmp(key, "dtype") == 0)
            done = read_text(reader, &event->dtype);
        else if (strcmp(key, "name") == 0)
            done = read_text(reader, &name);
        else
            done = scan_skip(scan);
        if (!done) return false;
    }
    record->is_prediction = strncmp(name, "predicted", strlen("predicted")) == 0;
    return !scan->err->kind;
}

static bool read_member(struct reader *reader, struct record *record)
{
    struct trace_scan *scan = reader->scan;
    struct trace_event *event = &record->event;
    const char *key = scan->text, *phase = "";
    if (strcmp(key, "ph") == 0) {
        if (!read_text(reader, &phase)) return false;
        record->phase = *phase;
        return true;
    }
    if (strcmp(key, "name") == 0) return read_text(reader, &event->name);
    if (strcmp(key, "cat") == 0) return read_text(reader, &event->category);
    if (strcmp(key, "ts") == 0) {
        record->has_start = true;
        return scan_number(scan, &event->start_us);
    }
    if (strcmp(key, "dur") == 0) return scan_number(scan, &event->duration_us);
    if (strcmp(key, "pid") == 0) return read_number(reader, &event->process);
    if (strcmp(key, "tid") == 0) return read_number(reader, &event->thread);
    return strcmp(key, "args") == 0 ? read_args(reader, record) : scan_skip(scan);
}

static bool read_event(struct reader *reader)
{
    struct trace_scan *scan = reader->scan;
    struct trace_events *events = reader->events;
    struct record record = {
        .event = {.name = "", .category = "", .collective = "", .dtype = ""},
    };
    if (scan_peek(scan) != '{') return scan_take(scan, '{');
    for (bool first = true; scan_member(scan, &first);) {
        if (!read_member(reader, &record)) return false;
    }
    if (scan->err->kind) return false;
    if (record.phase == 'M' && record.is_prediction &&
        strcmp(record.event.name, "process_name") == 0) {
        ARENA_GROW(reader->arena, events->predicted, events->predicted_count,
                   events->predicted_capacity);
        events->predicted[events->predicted_count++] = record.event.process;
    }
    if (record.phase != 'X') return true;
    if (!record.has_start || record.event.duration_us < 0) {
        return err_set(scan->err, ERR_INPUT,
                       "%s:%d: the slice \"%.80s\" has no start or ends before it starts",
                       scan->path, scan->line, record.event.name);
    }
    ARENA_GROW(reader->arena, events->items, events->count, events->capacity);
    assert(record.event.duration_us >= 0);
    events->items[events->count++] = record.event;
    return true;
}

static bool read_list(struct reader *reader)
{
    for (bool first = true; scan_item(reader->scan, &first);) {
        if (!read_event(reader)) return false;
    }
    return !reader->scan->err->kind;
}

// {"world_size": 8, ...}, [{"name": "NVIDIA H100"}, ...]
static bool read_world(struct reader *reader)
{
    if (scan_peek(reader->scan) != '{') return scan_skip(reader->scan);
    for (bool first = true; scan_member(reader->scan, &first);) {
        bool done = strcmp(reader->scan->text, "world_size") == 0
                        ? read_number(reader, &reader->events->world_size)
                        : scan_skip(reader->scan);
        if (!done) return false;
    }
    return !reader->scan->err->kind;
}

static bool read_devices(struct reader *reader)
{
    if (scan_peek(reader->scan) != '[') return scan_skip(reader->scan);
    for (bool first = true; scan_item(reader->scan, &first);) {
        if (scan_peek(reader->scan) != '{') return scan_skip(reader->scan);
        const char *name = "";
        for (bool first_member = true; scan_member(reader->scan, &first_member);) {
            bool done = strcmp(reader->scan->text, "name") == 0 ? read_text(reader, &name)
                                                                : scan_skip(reader->scan);
            if (!done) return false;
        }
        if (!*reader->events->device_name) reader->events->device_name = name;
    }
    return !reader->scan->err->kind;
}

static bool read_object(struct reader *reader)
{
    bool has_events = false;
    for (bool first = true; scan_member(reader->scan, &first);) {
        const char *key = reader->scan->text;
        bool done;
        if (strcmp(key, "traceEvents") == 0) {
            has_events = true;
            done = read_list(reader);
        } else if (strcmp(key, "distributedInfo") == 0) {
            done = read_world(reader);
        } else if (strcmp(key, "deviceProperties") == 0) {
            done = read_devices(reader);
        } else {
            done = scan_skip(reader->scan);
        }
        if (!done) return false;
    }
    if (reader->scan->err->kind || has_events) return !reader->scan->err->kind;
    return err_set(reader->scan->err, ERR_INPUT, "%s: no trace: missing \"traceEvents\"",
                   reader->scan->path);
}

bool trace_events_read(struct arena *arena, const char *path, struct trace_events *events,
                       struct err *err)
{
    struct reader *reader = ARENA_NEW(arena, struct reader, 1);
    *events = (struct trace_events){.rank_count = 1, .device_name = ""};
    *reader = (struct reader){
        .arena = arena, .scan = ARENA_NEW(arena, struct trace_scan, 1), .events = events};
    if (!scan_open(reader->scan, path, err)) return false;
    bool done = scan_peek(reader->scan) == '[' ? read_list(reader) : read_object(reader);
    done = done && scan_end(reader->scan);
    scan_close(reader->scan);
    if (done && events->count == 0)
        err_set(err, ERR_INPUT, "%s: the trace holds no slice (\"ph\": \"X\")", path);
    return !err->kind;
}
