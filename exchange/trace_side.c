#include "core/plain.h"
#include "exchange/compare_side.h"
#include "exchange/database.h"
#include "exchange/trace_events.h"
#include "exchange/trace_kinds.h"
#include "exchange/trace_nsight.h"
#include "exchange/trace_scan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// What rounding to nanoseconds leaves of a slice that is all taken by others.
static const double NOTHING_US = 0.01;

// A trace as tasks: the time of each name by itself, so that what is nested in a slice is not
// counted twice, a step.

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// A step of a profiler.
static bool is_step(const struct trace_event *event)
{
    return strcmp(event->category, TRACE_STEP) == 0 ||
           (strcmp(event->category, "user_annotation") == 0 &&
            starts_with(event->name, "ProfilerStep#"));
}

static bool is_device_work(const struct trace_event *event)
{
    static const char *const KINDS[] = {"kernel", "gpu_memcpy", "gpu_memset"};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(event->category, KINDS[i]) == 0) return true;
    return false;
}

static bool is_predicted(const struct trace_events *events, const struct trace_event *event)
{
    for (int i = 0; i < events->predicted_count; i++)
        if (events->predicted[i] == event->process) return true;
    return false;
}

// What counts: of a profiler's trace what the device does, of ours everything that was measured,
// or where nothing was, predicted.
static const struct trace_event **chosen(struct arena *arena, const struct trace_events *events,
                                         int *count)
{
    const struct trace_event **list = ARENA_NEW(arena, const struct trace_event *, events->count);
    bool is_profile = false;
    *count = 0;
    for (int i = 0; i < events->count; i++)
        is_profile = is_profile || is_device_work(&events->items[i]) || is_step(&events->items[i]);
    for (int i = 0; i < events->count; i++) {
        const struct trace_event *event = &events->items[i];
        bool counts = is_profile ? is_device_work(event) : !is_predicted(events, event);
        if (counts) list[(*count)++] = event;
    }
    return list;
}

static int by_place(const void *a, const void *b)
{
    const struct trace_event *left = *(const struct trace_event *const *)a;
    const struct trace_event *right = *(const struct trace_event *const *)b;
    const double pairs[][2] = {{left->process, right->process},
                               {left->thread, right->thread},
                               {left->start_us, right->start_us},
                               {right->duration_us, left->duration_us}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][0] != pairs[i][1]) return pairs[i][0] < pairs[i][1] ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

// "forward, micro-batch 3" is the task "forward".
static const char *task_name(struct arena *arena, const struct trace_event *event)
{
    const char *end = strstr(event->name, ", micro-batch ");
    if (!end) return event->name;
    return arena_print(arena, "%.*s", (int)(end - event->name), event->name);
}

static double end_us(const struct trace_event *event)
{
    return event->start_us + event->duration_us;
}

// Events of one track in the order of their starts: `own_us` is what nothing nested takes. Times
// are rounded to nanoseconds, so that a child may end one after its parent.
static void split_time(const struct trace_event **list, int count, struct arena *arena,
                       double *own_us)
{
    assert(count > 0);
    int *open = ARENA_NEW(arena, int, count);
    int depth = 0;
    for (int i = 0; i < count; i++) {
        own_us[i] = list[i]->duration_us;
        while (depth > 0) {
            const struct trace_event *above = list[open[depth - 1]];
            bool is_inside = above->process == list[i]->process &&
                             above->thread == list[i]->thread &&
                             list[i]->start_us < end_us(above) - 5e-4;
            if (is_inside) break;
            depth--;
        }
        if (depth > 0) {
            double left_us = end_us(list[open[depth - 1]]) - list[i]->start_us;
            own_us[open[depth - 1]] -= fmin(list[i]->duration_us, left_us);
        }
        open[depth++] = i;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct side_task *)a)->name, ((const struct side_task *)b)->name);
}

// Tasks of one name put together.
static void sum_tasks(struct side_file *file)
{
    qsort(file->tasks, (size_t)file->task_count, sizeof *file->tasks, by_name);
    int kept = 0;
    for (int i = 0; i < file->task_count; i++) {
        struct side_task *last = kept > 0 ? &file->tasks[kept - 1] : NULL;
        const struct side_task *task = &file->tasks[i];
        if (!last || strcmp(last->name, task->name) != 0) {
            file->tasks[kept++] = *task;
            continue;
        }
        last->count += task->count;
        last->bytes += task->bytes;
        last->s += task->s;
    }
    assert(kept <= file->task_count);
    file->task_count = kept;
}

// Returns how many steps of a rank the trace holds; `steps_told`: see side_read.
static double read_steps(struct arena *arena, const struct trace_events *events,
                         const struct trace_event *const *list, int count, int steps_told,
                         struct side_file *file)
{
    assert(count > 0 && steps_told >= 0);
    for (int i = 0; i < events->count && !steps_told; i++) {
        if (!is_step(&events->items[i])) continue;
        ARENA_GROW(arena, file->step_s, file->step_count, file->step_capacity);
        file->step_s[file->step_count++] = events->items[i].duration_us * 1e-6;
    }
    if (file->step_count > 0) return file->step_count;
    double first = INFINITY, last = -INFINITY;
    for (int i = 0; i < count; i++) {
        first = fmin(first, list[i]->start_us);
        last = fmax(last, end_us(list[i]));
    }
    file->step_s = ARENA_NEW(arena, double, 1);
    int steps = steps_told ? steps_told : 1;
    file->step_s[0] = (last - first) * 1e-6 / steps;
    file->step_count = 1;
    assert(first <= last);
    return (double)steps * events->rank_count;
}

static bool is_database(struct arena *arena, const char *path, bool *is, struct err *err)
{
    struct trace_scan *scan = ARENA_NEW(arena, struct trace_scan, 1);
    if (!scan_open(scan, path, err)) return false;
    scan_peek(scan);
    scan_close(scan);
    *is = scan->length > (int)sizeof DATABASE_MARK &&
          memcmp(scan->buffer, DATABASE_MARK, sizeof DATABASE_MARK) == 0;
    return !err->kind;
}

static bool read_events(struct arena *arena, const char *path, int steps_told,
                        struct trace_events *events, struct err *err)
{
    bool is_nsight = false;
    if (!is_database(arena, path, &is_nsight, err)) return false;
    return is_nsight ? trace_nsight_read(arena, path, steps_told > 0, events, err)
                     : trace_events_read(arena, path, events, err);
}

static bool read_trace(struct arena *arena, const char *path, int steps_told, bool by_kind,
                       struct side_file *file, struct err *err)
{
    struct trace_events events;
    int count;
    if (!read_events(arena, path, steps_told, &events, err)) return false;
    const struct trace_event **list = chosen(arena, &events, &count);
    if (count == 0)
        return err_set(err, ERR_INPUT, "%s: the trace holds no work of a device", file->path);
    qsort(list, (size_t)count, sizeof *list, by_place);
    double *own_us = ARENA_NEW(arena, double, count);
    split_time(list, count, arena, own_us);
    double share = 1 / read_steps(arena, &events, list, count, steps_told, file);
    if (!(file->step_s[0] > 0))
        return err_set(err, ERR_INPUT, "%s: the step of the trace takes no time", file->path);
    file->tasks = ARENA_NEW(arena, struct side_task, count);
    for (int i = 0; i < count; i++) {
        file->tasks[file->task_count++] = (struct side_task){
            .name = by_kind ? trace_kind_of(list[i]) : task_name(arena, list[i]),
            .kind = list[i]->category,
            .count = share,
            .bytes = list[i]->bytes * share,
            .s = own_us[i] < NOTHING_US ? 0 : own_us[i] * 1e-6 * share,
        };
    }
    sum_tasks(file);
    return true;
}

bool side_read_trace(struct arena *arena, const char *path, int steps_told, struct side_file *file,
                     struct err *err)
{
    return read_trace(arena, path, steps_told, false, file, err);
}

bool side_read_kinds(struct arena *arena, const char *path, int steps_told, struct side_file *file,
                     struct err *err)
{
    *file = (struct side_file){.path = plain_copy(arena, path), .kind = SIDE_TRACE};
    return read_trace(arena, path, steps_told, true, file, err);
}
