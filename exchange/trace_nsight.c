#include "exchange/trace_nsight.h"

#include "core/plain.h"
#include "exchange/database.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

// A serialized thread or process holds the number of its process above these bits ("Serialized
// process and thread identifiers" of the schema's page).
enum { PROCESS_SHIFT = 24 };

struct step {
    int64_t process, start_ns, end_ns;
    const char *name;
};

struct rank {
    int64_t process, device;
};

struct reader {
    struct arena *arena;
    struct database *database;
    struct trace_events *events;
    bool are_steps_told, has_launches;
    struct step *steps;
    int step_count, step_capacity;
    struct rank *ranks;
    int rank_count, rank_capacity;
    const char *name;  // of the row before, and its number there
    int64_t name_id;
};

// What a device does, a table a kind. `name`: the column that names it, or a text of its own.
static const struct {
    const char *table, *category, *name, *bytes, *own_name;
} WORK[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", "kernel", "demangledName", "0", NULL},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", "-1", "w.bytes", "memcpy"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", "-1", "w.bytes", "memset"},
    // Graphs that were not traced by node: their kernels are not known.
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "kernel", "-1", "0", "CUDA graph, kernels not traced"},
};

// Whether a range is called as a step is: "train_step 12", "iteration12", "ProfilerStep#3".
static bool is_step_name(const char *name)
{
    static const char *const BEFORE[] = {"training", "train", "global", "profiler"};
    static const char *const WORDS[] = {"step", "iteration", "iter", "batch"};
    static const char BETWEEN[] = " _-:=#[";
    for (size_t i = 0; i < sizeof BEFORE / sizeof *BEFORE; i++) {
        size_t length = strlen(BEFORE[i]);
        if (strncasecmp(name, BEFORE[i], length) != 0) continue;
        name += length + strspn(name + length, BETWEEN);
        break;
    }
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        size_t length = strlen(WORDS[i]);
        if (strncasecmp(name, WORDS[i], length) != 0) continue;
        const char *rest = name + length + strspn(name + length, BETWEEN);
        rest += strspn(rest, "0123456789");
        if (*rest == '\0' || strcmp(rest, "]") == 0) return true;
    }
    return false;
}

static bool lies_in(const struct step *inner, const struct step *outer)
{
    assert(outer->start_ns <= outer->end_ns);
    return inner->process == outer->process && inner->start_ns >= outer->start_ns &&
           inner->end_ns <= outer->end_ns;
}

// Ranges come by their starts, the longer first: what lies in one before is no step of its own.
static void keep_step(struct reader *reader, const struct step *step)
{
    assert(step->end_ns > step->start_ns);
    for (int i = reader->step_count - 1; i >= 0; i--)
        if (lies_in(step, &reader->steps[i])) return;
    ARENA_GROW(reader->arena, reader->steps, reader->step_count, reader->step_capacity);
    reader->steps[reader->step_count] = *step;
    reader->steps[reader->step_count++].name = plain_copy(reader->arena, step->name);
}

static bool read_steps(struct reader *reader, struct err *err)
{
    static const char SQL[] =
        "SELECT n.start, n.end, n.globalTid, coalesce(n.text, s.value, '') FROM NVTX_EVENTS n "
        "LEFT JOIN StringIds s ON s.id = n.textId WHERE n.end > n.start ORDER BY n.start, -n.end";
    bool is_there = false;
    if (!database_has(reader->database, "NVTX_EVENTS", &is_there, err)) return false;
    if (!is_there) return true;
    if (!database_ask(reader->database, SQL, err)) return false;
    while (database_next(reader->database, err)) {
        const struct step step = {
            .start_ns = database_number(reader->database, 0),
            .end_ns = database_number(reader->database, 1),
            .process = database_number(reader->database, 2) >> PROCESS_SHIFT,
            .name = database_text(reader->database, 3),
        };
        if (is_step_name(step.name)) keep_step(reader, &step);
    }
    return !err->kind;
}

static int rank_of(struct reader *reader, int64_t process, int64_t device)
{
    for (int i = 0; i < reader->rank_count; i++)
        if (reader->ranks[i].process == process && reader->ranks[i].device == device) return i;
    ARENA_GROW(reader->arena, reader->ranks, reader->rank_count, reader->rank_capacity);
    reader->ranks[reader->rank_count] = (struct rank){process, device};
    return reader->rank_count++;
}

static void put_event(struct reader *reader, const struct trace_event *event)
{
    assert(event->duration_us >= 0);
    struct trace_events *events = reader->events;
    ARENA_GROW(reader->arena, events->items, events->count, events->capacity);
    events->items[events->count++] = *event;
}

static bool is_in_step(const struct reader *reader, int64_t process, int64_t launch_ns)
{
    for (int i = 0; i < reader->step_count; i++) {
        const struct step *step = &reader->steps[i];
        if (step->process == process && launch_ns >= step->start_ns && launch_ns < step->end_ns)
            return true;
    }
    return reader->are_steps_told;
}

// Rows come by the number of their name, so that each name is kept once.
static const char *name_of_row(struct reader *reader)
{
    int64_t id = database_number(reader->database, 6);
    if (!reader->name || id != reader->name_id)
        reader->name = plain_copy(reader->arena, database_text(reader->database, 7));
    reader->name_id = id;
    return reader->name;
}

static bool read_work(struct reader *reader, size_t kind, struct err *err)
{
    assert(kind < sizeof WORK / sizeof *WORK);
    // A launch is found by its number and process; where launches were not traced, the work counts
    // by its own start.
    const char *launch =
        reader->has_launches
            ? "LEFT JOIN (SELECT correlationId, globalTid >> 24 AS process, "
              "min(start) AS start FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1, 2) "
              "r ON r.correlationId = w.correlationId AND r.process = "
              "w.globalPid >> 24 "
            : "";
    const char *sql = arena_print(
        reader->arena,
        "SELECT w.start, w.end, w.globalPid, w.deviceId, w.streamId, %s, %s AS name_id, "
        "coalesce(s.value, ''), %s FROM %s w LEFT JOIN StringIds s ON s.id = name_id %s"
        "ORDER BY name_id, w.start",
        WORK[kind].bytes, WORK[kind].name,
        reader->has_launches ? "coalesce(r.start, w.start)" : "w.start", WORK[kind].table, launch);
    bool is_there = false;
    if (!database_has(reader->database, WORK[kind].table, &is_there, err)) return false;
    if (!is_there) return true;
    if (!database_ask(reader->database, sql, err)) return false;
    reader->name = WORK[kind].own_name;
    reader->name_id = -1;
    while (database_next(reader->database, err)) {
        int64_t start_ns = database_number(reader->database, 0);
        int64_t process = database_number(reader->database, 2) >> PROCESS_SHIFT;
        if (!is_in_step(reader, process, database_number(reader->database, 8))) continue;
        const struct trace_event event = {
            .name = name_of_row(reader),
            .category = WORK[kind].category,
            .collective = "",
            .dtype = "",
            .start_us = (double)start_ns * 1e-3,
            .duration_us =
                fmax(0, (double)(database_number(reader->database, 1) - start_ns) * 1e-3),
            .process = rank_of(reader, process, database_number(reader->database, 3)),
            .thread = (double)database_number(reader->database, 4),
            .bytes = (double)database_number(reader->database, 5),
        };
        put_event(reader, &event);
    }
    return !err->kind;
}

// Each rank has the steps of its process.
static void put_steps(struct reader *reader)
{
    for (int rank = 0; rank < reader->rank_count; rank++) {
        for (int i = 0; i < reader->step_count; i++) {
            const struct step *step = &reader->steps[i];
            if (step->process != reader->ranks[rank].process) continue;
            const struct trace_event event = {
                .name = step->name,
                .category = TRACE_STEP,
                .collective = "",
                .dtype = "",
                .start_us = (double)step->start_ns * 1e-3,
                .duration_us = (double)(step->end_ns - step->start_ns) * 1e-3,
                .process = rank,
                .thread = -1,
            };
            put_event(reader, &event);
        }
    }
}

static bool read_all(struct reader *reader, const char *path, struct err *err)
{
    bool is_export = false;
    if (!database_has(reader->database, "StringIds", &is_export, err)) return false;
    if (!is_export)
        return err_set(err, ERR_INPUT, "%s: no export of Nsight Systems: missing table StringIds",
                       path);
    if (!database_has(reader->database, "CUPTI_ACTIVITY_KIND_RUNTIME", &reader->has_launches, err))
        return false;
    if (!reader->are_steps_told && !read_steps(reader, err)) return false;
    if (!reader->are_steps_told && reader->step_count == 0)
        return err_set(err, ERR_INPUT,
                       "%s: no NVTX range is called step, iteration or batch: say how many steps "
                       "the profile holds by --trace-steps",
                       path);
    for (size_t kind = 0; kind < sizeof WORK / sizeof *WORK; kind++)
        if (!read_work(reader, kind, err)) return false;
    if (reader->events->count == 0)
        return err_set(err, ERR_INPUT, "%s: the profile holds no work of a device%s", path,
                       reader->step_count > 0 ? " that its steps launched" : "");
    put_steps(reader);
    reader->events->rank_count = reader->rank_count;
    return true;
}

bool trace_nsight_read(struct arena *arena, const char *path, bool are_steps_told,
                       struct trace_events *events, struct err *err)
{
    *events = (struct trace_events){.device_name = ""};
    struct reader reader = {.arena = arena, .events = events, .are_steps_told = are_steps_told};
    reader.database = database_open(arena, path, err);
    bool done = reader.database && read_all(&reader, plain_copy(arena, path), err);
    database_close(reader.database);
    return done;
}
