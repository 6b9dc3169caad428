#include "reports/comparison/run_read.h"
#include "core/hash.h"
#include "core/sort.h"

#include <assert.h>
#include <string.h>

enum { TASKS_MAX = 1 << 30 };  // numbers of tasks

const char *run_plan_hash(struct arena *arena, const char *text)
{
    uint64_t hash = hash_bytes(HASH_START, text, strlen(text));
    return arena_print(arena, "fnv1a64:%016llx", (unsigned long long)hash);
}

static double number_of(const struct json *object, const char *key, struct err *err)
{
    struct json value = json_get(object, key, err);
    return json_f64(&value, 0, 1e300, err);
}

static const char *text_of(const struct json *object, const char *key, struct err *err)
{
    struct json value = json_get(object, key, err);
    return json_text(&value, err);
}

// The first step also loads and warms up: it counts where it is alone.
static double median_of(struct arena *arena, const double *step_s, int count)
{
    assert(count > 0);
    int first = count > 1 ? 1 : 0, rest = count - first;
    double *sorted = ARENA_COPY(arena, double, step_s + first, rest);
    return sort_median(sorted, (size_t)rest);
}

static void read_steps(struct arena *arena, const struct json *root, struct measured_run *run,
                       struct err *err)
{
    struct json steps = json_get(root, "step_s", err);
    int count = json_count(&steps, err);
    if (!err->kind && count == 0) json_fail(&steps, err, "the run has no step");
    run->step_s = ARENA_NEW(arena, double, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json step = json_item(&steps, i);
        run->step_s[run->step_count++] = json_f64(&step, 1e-12, 1e12, err);
    }
    assert(err->kind || run->step_count > 0);
    if (!err->kind) run->median_s = median_of(arena, run->step_s, run->step_count);
}

// The names of kinds are taken as they are: the file may be of another version.
static void read_kinds(struct arena *arena, const struct json *root, struct measured_run *run,
                       struct err *err)
{
    struct json kinds = json_get(root, "kinds", err);
    int count = json_count(&kinds, err);
    run->kinds = ARENA_NEW(arena, struct measured_kind, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json kind = json_item(&kinds, i);
        run->kinds[run->kind_count++] = (struct measured_kind){
            .group = text_of(&kind, "group", err),
            .kind = text_of(&kind, "kind", err),
            .predicted_count = number_of(&kind, "predicted_count", err),
            .count = number_of(&kind, "count", err),
            .predicted_s = number_of(&kind, "predicted_s", err),
            .measured_s = number_of(&kind, "measured_s", err),
            .predicted_bytes = number_of(&kind, "predicted_bytes", err),
            .measured_bytes = number_of(&kind, "measured_bytes", err),
        };
    }
}

static bool read_stream(const struct json *value, enum stream *stream, struct err *err)
{
    const char *name = json_text(value, err);
    for (int i = 0; name && i < STREAM_COUNT; i++) {
        *stream = (enum stream)i;
        if (strcmp(name, stream_name(*stream)) == 0) return true;
    }
    return json_fail(value, err, "expected a stream, \"compute\", \"tp\", ..., found \"%s\"",
                     name ? name : "");
}

// [rank, stream, task, start_ns, end_ns].
static void read_span(const struct json *at, const struct program *program, struct span *span,
                      struct err *err)
{
    assert(program->mesh.rank_count > 0);
    if (json_count(at, err) != 5) {
        json_fail(at, err, "expected [rank, stream, task, start_ns, end_ns]");
        return;
    }
    struct json rank = json_item(at, 0), stream = json_item(at, 1), task = json_item(at, 2);
    struct json start = json_item(at, 3), end = json_item(at, 4);
    span->rank = (int)json_i64(&rank, 0, program->mesh.rank_count - 1, err);
    if (!read_stream(&stream, &span->stream, err)) return;
    span->task = (int)json_i64(&task, 0, TASKS_MAX, err);
    struct task_id id = task_id_of(&program->shape, span->task);
    int items = program->shape.micro_batch_count;
    if (id.kind == TASK_SEND || id.kind == TASK_RECEIVE)
        items *= 2;
    else if (id.kind >= SLOT_KIND_COUNT)
        items = TASKS_MAX;
    if (!err->kind && id.item >= items)
        json_fail(&task, err, "the plan has no task %d: it is of micro-batch %d", span->task,
                  id.item);
    span->start_ns = json_i64(&start, 0, 1e15, err);
    span->end_ns = json_i64(&end, (double)span->start_ns, 1e15, err);
}

static void read_trace(struct arena *arena, const struct json *root, const struct program *program,
                       struct measured_run *run, struct err *err)
{
    struct json trace = json_get(root, "trace", err);
    int count = json_count(&trace, err);
    run->trace = (struct trace){.spans = ARENA_NEW(arena, struct span, count),
                                .rank_count = run->rank_count};
    for (int i = 0; i < count && !err->kind; i++) {
        struct json span = json_item(&trace, i);
        read_span(&span, program, &run->trace.spans[i], err);
    }
    run->trace.span_count = err->kind ? 0 : count;
}

// [from, to, bytes] of pairs.
static void read_traffic(struct arena *arena, const struct json *root, struct measured_run *run,
                         struct err *err)
{
    if (err->kind || !json_has(root, "traffic")) return;
    struct json traffic = json_get(root, "traffic", err);
    int count = json_count(&traffic, err), last = run->rank_count - 1;
    size_t pairs = (size_t)run->rank_count * (size_t)run->rank_count;
    assert(pairs > 0);
    run->traffic_bytes = ARENA_NEW(arena, double, pairs);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json pair = json_item(&traffic, i);
        if (json_count(&pair, err) != 3) {
            json_fail(&pair, err, "expected [from, to, bytes]");
            return;
        }
        struct json from = json_item(&pair, 0), to = json_item(&pair, 1),
                    bytes = json_item(&pair, 2);
        int64_t row = json_i64(&from, 0, last, err), column = json_i64(&to, 0, last, err);
        if (err->kind) return;
        run->traffic_bytes[row * run->rank_count + column] = json_f64(&bytes, 0, 1e18, err);
    }
}

bool measured_run_read(struct arena *arena, const char *path, const char *plan_text,
                       const struct program *program, struct measured_run *run, struct err *err)
{
    *run = (struct measured_run){.path = path};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_load(arena, path, document, err)) return false;
    struct json root = json_root(document);
    if (!json_has(&root, "step_s"))
        return json_fail(&root, err, "expected a run.json as `meshwright run` writes it");
    struct json plan = json_get(&root, "plan", err), hash = json_get(&plan, "hash", err);
    const char *found = json_text(&hash, err), *wanted = run_plan_hash(arena, plan_text);
    if (found && strcmp(found, wanted) != 0)
        return json_fail(&hash, err, "a run of another plan: expected %s, found %s", wanted, found);
    struct json machine = json_get(&root, "machine", err),
                compare = json_get(&root, "compare", err);
    int rank_count = program->mesh.rank_count;
    struct json ranks = json_get(&machine, "ranks", err);
    run->rank_count = (int)json_i64(&ranks, rank_count, rank_count, err);
    run->device = text_of(&machine, "device", err);
    run->backend = text_of(&machine, "backend", err);
    run->transport = text_of(&machine, "transport", err);
    run->peak_bytes = number_of(&root, "peak_bytes", err);
    run->tokens_per_s = number_of(&compare, "measured_tokens_per_s", err);
    run->predicted_peak_bytes = number_of(&compare, "predicted_peak_bytes", err);
    read_steps(arena, &root, run, err);
    read_kinds(arena, &root, run, err);
    read_trace(arena, &root, program, run, err);
    read_traffic(arena, &root, run, err);
    return !err->kind;
}
