#include "exchange/compare_side.h"

#include "core/plain.h"
#include "exchange/database.h"
#include "exchange/trace_scan.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <zlib.h>

const char *side_kind_name(enum side_kind kind)
{
    assert(kind <= SIDE_LOG);
    static const char *const NAMES[] = {"plan", "run", "trace", "log"};
    return NAMES[kind];
}

// The task of this name, which is added where there is none.
static struct side_task *side_task_of(struct arena *arena, struct side_file *file, const char *name,
                                      const char *kind)
{
    assert(name && kind);
    for (int i = 0; i < file->task_count; i++) {
        if (strcmp(file->tasks[i].name, name) == 0) return &file->tasks[i];
    }
    ARENA_GROW(arena, file->tasks, file->task_count, file->task_capacity);
    file->tasks[file->task_count] = (struct side_task){.name = name, .kind = kind};
    return &file->tasks[file->task_count++];
}

static void put_choice(struct arena *arena, struct side_file *file, const char *key,
                       const char *value)
{
    ARENA_GROW(arena, file->choices, file->choice_count, file->choice_capacity);
    file->choices[file->choice_count++] = (struct side_choice){key, value};
}

// The words between the brackets of a value, as they stand in the file.
static const char *value_text(struct arena *arena, const struct json *value, struct err *err)
{
    if (json_is_text(value)) return json_text(value, err);
    struct json_span span = json_span_of(value);
    return arena_print(arena, "%.*s", (int)span.bytes, value->document->text + span.offset);
}

static void put_choices(struct arena *arena, const struct json *object, struct side_file *file,
                        struct err *err)
{
    int count = json_member_count(object, err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (json_is_object(&member)) continue;
        put_choice(arena, file, json_key(&member), value_text(arena, &member, err));
    }
}

static const char *text_below(const struct json *root, const char *object, const char *key)
{
    struct err ignored = {0};
    struct json at = json_find(root, object);
    if (!json_is_object(&at)) return NULL;
    struct json value = json_find(&at, key);
    return json_is_text(&value) ? json_text(&value, &ignored) : NULL;
}

static void put_name(struct arena *arena, const struct json *root, const char *object,
                     const char *key, struct side_file *file)
{
    const char *name = text_below(root, object, key);
    if (name) put_choice(arena, file, object, name);
}

static double number_of(const struct json *object, const char *key, struct err *err)
{
    struct json value = json_get(object, key, err);
    return json_f64(&value, 0, 1e300, err);
}

static double step_of(const struct json *step, struct err *err)
{
    return json_f64(step, 1e-12, 1e12, err);
}

// The parts of the step are what a plan's seconds go to.
static void read_breakdown(struct arena *arena, const struct json *prediction,
                           struct side_file *file, struct err *err)
{
    struct json breakdown = json_get(prediction, "breakdown", err);
    int count = json_member_count(&breakdown, err);
    for (int i = 0; i < count; i++) {
        struct json part = json_item(&breakdown, i);
        const char *key = json_key(&part);
        size_t length = strlen(key);
        if (length < 3 || strcmp(key + length - 2, "_s") != 0) continue;
        char *name = arena_print(arena, "%.*s", (int)length - 2, key);
        for (char *at = name; *at; at++)
            if (*at == '_') *at = ' ';
        struct side_task *task = side_task_of(arena, file, name, "part of the step");
        task->count = 1;
        // Rounding may leave a part a hair below 0.
        task->s = json_f64(&part, -1e300, 1e300, err);
    }
}

static void read_plan(struct arena *arena, const struct json *root, struct side_file *file,
                      struct err *err)
{
    struct json prediction = json_get(root, "prediction", err);
    struct json parallel = json_get(root, "parallel", err);
    struct json workload = json_get(root, "workload", err);
    struct json step = json_get(&prediction, "step_s", err);
    if (err->kind) return;
    file->step_s = ARENA_NEW(arena, double, 1);
    file->step_s[0] = step_of(&step, err);
    file->step_count = 1;
    file->peak_bytes = number_of(&prediction, "peak_bytes", err);
    file->tokens_per_step =
        number_of(&workload, "seq_len", err) * number_of(&workload, "global_batch", err);
    put_name(arena, root, "model", "name", file);
    put_name(arena, root, "cluster", "name", file);
    put_name(arena, root, "stack", "name", file);
    put_choices(arena, &workload, file, err);
    put_choices(arena, &parallel, file, err);
    read_breakdown(arena, &prediction, file, err);
}

static void read_steps(struct arena *arena, const struct json *root, struct side_file *file,
                       struct err *err)
{
    struct json steps = json_get(root, "step_s", err);
    int count = json_count(&steps, err);
    if (!err->kind && count == 0) json_fail(&steps, err, "the run has no step");
    // The first step also loads, allocates and warms caches.
    int first = count > 1 ? 1 : 0;
    file->step_s = ARENA_NEW(arena, double, count);
    for (int i = first; i < count && !err->kind; i++) {
        struct json step = json_item(&steps, i);
        file->step_s[file->step_count++] = step_of(&step, err);
    }
}

static void read_tasks(struct arena *arena, const struct json *root, struct side_file *file,
                       struct err *err)
{
    struct json tasks = json_get(root, "tasks", err);
    int count = json_count(&tasks, err);
    file->tasks = ARENA_NEW(arena, struct side_task, count);
    file->task_capacity = count;
    for (int i = 0; i < count && !err->kind; i++) {
        struct json task = json_item(&tasks, i);
        struct json name = json_get(&task, "task", err), kind = json_get(&task, "kind", err);
        file->tasks[file->task_count++] = (struct side_task){
            .name = json_text(&name, err),
            .kind = json_text(&kind, err),
            .count = number_of(&task, "count", err),
            .bytes = number_of(&task, "bytes", err),
            .s = number_of(&task, "s", err),
        };
    }
}

static void read_run(struct arena *arena, const struct json *root, struct side_file *file,
                     struct err *err)
{
    struct json compare = json_get(root, "compare", err);
    read_steps(arena, root, file, err);
    file->peak_bytes = number_of(root, "peak_bytes", err);
    file->tokens_per_step = number_of(&compare, "measured_step_s", err) *
                            number_of(&compare, "measured_tokens_per_s", err);
    read_tasks(arena, root, file, err);
    if (err->kind) return;
    const char *hash = text_below(root, "plan", "hash");
    if (hash) put_choice(arena, file, "plan", hash);
    struct json machine = json_find(root, "machine");
    if (json_is_object(&machine)) put_choices(arena, &machine, file, err);
}

// The first block of a file is enough: what tells the kinds apart stands at the top of what writes
// them.
bool side_kind_of(struct arena *arena, const char *path, enum side_kind *kind, struct err *err)
{
    enum { LOOKED_AT = 1 << 16 };
    struct trace_scan *scan = ARENA_NEW(arena, struct trace_scan, 1);
    if (!scan_open(scan, path, err)) return false;
    scan_peek(scan);
    char *text = ARENA_NEW(arena, char, SCAN_BUFFER_BYTES + 1);
    memcpy(text, scan->buffer, (size_t)scan->length);
    scan_close(scan);
    if (err->kind) return false;
    const char *at = text + strspn(text, " \t\r\n"), *then = at + (*at != '\0');
    then += strspn(then, " \t\r\n");
    bool is_database = strcmp(text, DATABASE_MARK) == 0;
    bool is_list = *at == '[' && (*then == '{' || *then == ']');
    bool is_object = *at == '{' && (*then == '"' || *then == '}');
    bool is_trace =
        is_list || is_database ||
        (is_object && (strstr(text, "\"traceEvents\"") || strstr(text, "\"schemaVersion\"")));
    *kind = is_trace ? SIDE_TRACE : !is_object ? SIDE_LOG : SIDE_PLAN;
    if (is_object && !is_trace && strstr(text, "\"step_s\"") && !strstr(text, "\"parallel\""))
        *kind = SIDE_RUN;
    return true;
}

bool side_read(struct arena *arena, const char *path, int steps_told, struct side_file *file,
               struct err *err)
{
    *file = (struct side_file){.path = plain_copy(arena, path)};
    if (!side_kind_of(arena, path, &file->kind, err)) return false;
    if (file->kind == SIDE_TRACE) return side_read_trace(arena, path, steps_told, file, err);
    if (file->kind == SIDE_LOG) {
        return err_set(err, ERR_USAGE,
                       "%s is neither a plan, a run.json nor a trace: a log is compared with the "
                       "plan of its run: meshwright compare PLAN LOG",
                       file->path);
    }
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_load(arena, path, document, err)) return false;
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    if (json_is_object(root) && json_has(root, "placement"))
        return json_fail(root, err, "the plan of a recommendation model is not compared");
    if (!json_has(root, "parallel") && !json_has(root, "step_s"))
        return json_fail(root, err, "neither a plan (\"parallel\") nor a run (\"step_s\")");
    // What it is for certain is said by what it has, not by the bytes that were looked at.
    file->kind = json_has(root, "parallel") ? SIDE_PLAN : SIDE_RUN;
    if (file->kind == SIDE_PLAN)
        read_plan(arena, root, file, err);
    else
        read_run(arena, root, file, err);
    assert(err->kind || file->step_count > 0);
    return !err->kind;
}
