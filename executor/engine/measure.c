#include "executor/engine/engine.h"

#include "core/progress.h"

#include <assert.h>
#include <stdlib.h>

// What each task took, by kind and as a trace. Kinds are numbered alike on all ranks, so that they
// can be added up: tasks of the schedule and of the step, operators, collectives by axis.
//
// Where streams run beside the host, times are those of events on them. An event on either side of
// every operator would cost more than a small one takes: that is done in one step (the fine one,
// whose operators are all that is known of operators), in the others only what the trace shows is
// timed: slots, exchanges, messages, work of the step.

enum {
    FIRST_OPERATOR = TASK_KIND_COUNT,
    FIRST_COLLECTIVE = FIRST_OPERATOR + OP_KIND_COUNT,
    KIND_COUNT = FIRST_COLLECTIVE + AXIS_COUNT * COLLECTIVE_COUNT
};

struct tally {
    double count, seconds, bytes;
};

struct measure {
    double *starts, *ends;  // [task] seconds since the step began
    int64_t *bytes;         // [task]
    struct tally kinds[KIND_COUNT];
    int measured_steps, fine_steps;
    int updated_steps;                      // of those: in fp16 gradients had room
    struct event *start, **began, **ended;  // [task]; NULL: the host's clock is right
    bool *is_shown;                         // [task]: an event of it is in every step
    bool *is_whole;                         // [task]: both are
    double step_began_s;
    double best_s, best_began_s;
    int64_t shift_ns;                 // of this rank's clock of the step behind the first rank's
    double *best_starts, *best_ends;  // of the fastest step after the first
};

static const struct instr *instr_of(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    return of->kind == TASK_INSTR ? &engine_block(engine, of)->instrs[of->instr] : NULL;
}

// Of operators and collectives inside slots; -1: the task has none but that of its own.
static int inner_kind(const struct engine *engine, int task)
{
    const struct instr *instr = instr_of(engine, task);
    if (!instr) return -1;
    if (instr->collective == COLLECTIVE_NONE) return FIRST_OPERATOR + (int)instr->kind;
    if (instr->collective == COLLECTIVE_SLICE) return -1;
    // What is streamed is handed on from neighbour to neighbour, and priced so.
    enum collective collective = instr->streamed ? COLLECTIVE_SEND_RECV : instr->collective;
    return FIRST_COLLECTIVE + (int)instr->parent * COLLECTIVE_COUNT + (int)collective;
}

static bool is_beside(const struct engine *engine)
{
    return engine->backend->is_asynchronous;
}

// The first step touches memory for the first time.
bool measure_is_fine(const struct engine *engine)
{
    int first = engine->first_step;
    int fine = engine->request->options->steps > first + 1 ? first + 1 : first;
    return !is_beside(engine) || engine->step == fine;
}

static bool is_timed(const struct engine *engine, int task)
{
    return measure_is_fine(engine) || engine->measure->is_shown[task];
}

// A slot's first and last task each have but that side of the slot in every step.
static bool is_timed_alone(const struct engine *engine, int task)
{
    return measure_is_fine(engine) || engine->measure->is_whole[task];
}

static bool open_events(struct engine *engine);

bool measure_open(struct engine *engine)
{
    int tasks = engine->script->task_count;
    struct measure *measure = engine->measure = ARENA_NEW(engine->arena, struct measure, 1);
    measure->starts = ARENA_NEW(engine->arena, double, tasks);
    measure->ends = ARENA_NEW(engine->arena, double, tasks);
    measure->bytes = ARENA_NEW(engine->arena, int64_t, tasks);
    measure->best_starts = ARENA_NEW(engine->arena, double, tasks);
    measure->best_ends = ARENA_NEW(engine->arena, double, tasks);
    if (!tasks_open(engine) || !traffic_open(engine)) return false;
    return !is_beside(engine) || open_events(engine);
}

void measure_close(struct engine *engine)
{
    struct measure *measure = engine->measure;
    const struct backend *backend = engine->backend;
    if (!measure || !measure->began) return;
    for (int t = 0; t < engine->script->task_count; t++) {
        if (measure->began[t]) backend->event_free(engine->device, measure->began[t]);
        if (measure->ended[t]) backend->event_free(engine->device, measure->ended[t]);
    }
    if (measure->start) backend->event_free(engine->device, measure->start);
}

bool measure_start_step(struct engine *engine)
{
    struct measure *measure = engine->measure;
    for (int t = 0; t < engine->script->task_count; t++)
        measure->bytes[t] = 0;
    engine->moved_s = 0;
    tasks_start_step(engine);
    traffic_start_step(engine);
    measure->step_began_s = clock_s();
    if (!is_beside(engine)) return true;
    const char *fault =
        engine->backend->event_record(engine->device, STREAM_COMPUTE, measure->start);
    // No stream begins before it.
    return engine_ok(engine, -1, fault) && streams_settle(engine);
}

static bool record(struct engine *engine, int task, struct event *event)
{
    if (!is_timed(engine, task)) return true;
    enum stream stream = engine->script->tasks[task].stream;
    return engine_ok(engine, task, engine->backend->event_record(engine->device, stream, event));
}

bool measure_begin(struct engine *engine, int task)
{
    struct measure *measure = engine->measure;
    if (is_beside(engine)) return record(engine, task, measure->began[task]);
    slow_begin(engine, task);
    measure->starts[task] = clock_s() - measure->step_began_s;
    return true;
}

// The slot that a task begins or goes on with; tasks of a slot stand together.
static bool is_work(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    return of->kind == TASK_INSTR || of->kind == TASK_SEED;
}

bool measure_end(struct engine *engine, int task)
{
    struct measure *measure = engine->measure;
    if (is_beside(engine)) return record(engine, task, measure->ended[task]);
    slow_end(engine, task);
    measure->ends[task] = clock_s() - measure->step_began_s;
    return true;
}

void measure_bytes(struct engine *engine, int task, int64_t bytes)
{
    assert(bytes >= 0 && task >= 0 && task < engine->script->task_count);
    if (engine->measure) engine->measure->bytes[task] += bytes;
}

// What has a kind of its own in traces: messages and work of the step. Losses that are taken out
// and copies to the host belong to the slot they stand in.
static bool has_own_kind(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    return of->kind == TASK_SEND || of->kind == TASK_RECEIVE || task_kind_is_once(of->kind);
}

// The last task of a slot that is work: copies behind it are no part of it.
static int end_of_slot(const struct engine *engine, int task)
{
    const struct script *script = engine->script;
    int last = task;
    for (int t = task; t < script->task_count && script->tasks[t].slot == script->tasks[task].slot;
         t++) {
        if (is_work(engine, t)) last = t;
    }
    return last;
}

static bool begins_slot(const struct engine *engine, int task)
{
    const struct script *script = engine->script;
    if (!is_work(engine, task)) return false;
    for (int t = task - 1; t >= 0 && script->tasks[t].slot == script->tasks[task].slot; t--) {
        if (is_work(engine, t)) return false;
    }
    return true;
}

// Where a slot makes the weights' gradients as well it is of B, whatever its order has first.
static struct task_id slot_id(const struct engine *engine, int task)
{
    const struct script_task *tasks = engine->script->tasks;
    struct task_id id = script_task_id(engine->script, task);
    int last = end_of_slot(engine, task);
    for (int t = task; t <= last; t++) {
        if (is_work(engine, t) && (int)tasks[t].slot_kind < (int)id.kind)
            id.kind = tasks[t].slot_kind;
    }
    bool is_fused = schedule_row(engine->program->parallel.schedule)->backward_fused;
    if (is_fused && id.kind == TASK_WEIGHT) id.kind = TASK_BACKWARD;
    return id;
}

static bool open_events(struct engine *engine)
{
    struct measure *measure = engine->measure;
    const struct backend *backend = engine->backend;
    int tasks = engine->script->task_count;
    measure->began = ARENA_NEW(engine->arena, struct event *, tasks + 1);
    measure->ended = ARENA_NEW(engine->arena, struct event *, tasks + 1);
    measure->is_shown = ARENA_NEW(engine->arena, bool, tasks + 1);
    measure->is_whole = ARENA_NEW(engine->arena, bool, tasks + 1);
    measure->start = backend->event_new(engine->device);
    bool has_all = measure->start != NULL;
    for (int t = 0; t < tasks && has_all; t++) {
        measure->began[t] = backend->event_new(engine->device);
        measure->ended[t] = backend->event_new(engine->device);
        has_all = measure->began[t] && measure->ended[t];
        const struct instr *instr = instr_of(engine, t);
        bool is_exchange =
            instr && instr->collective != COLLECTIVE_NONE && instr->collective != COLLECTIVE_SLICE;
        bool is_copy = engine->script->tasks[t].stream != STREAM_COMPUTE;
        measure->is_whole[t] = is_exchange || is_copy || has_own_kind(engine, t);
        measure->is_shown[t] |= measure->is_whole[t];
        if (!begins_slot(engine, t)) continue;
        measure->is_shown[t] = measure->is_shown[end_of_slot(engine, t)] = true;
    }
    return has_all || engine_ok(engine, -1, "no event left on the device");
}

// Of a step whose streams are done.
static void read_events(struct engine *engine)
{
    struct measure *measure = engine->measure;
    const struct backend *backend = engine->backend;
    for (int t = 0; t < engine->script->task_count; t++) {
        if (!is_timed(engine, t)) continue;
        measure->starts[t] =
            backend->event_seconds(engine->device, measure->start, measure->began[t]);
        measure->ends[t] =
            backend->event_seconds(engine->device, measure->start, measure->ended[t]);
    }
}

static void add(struct measure *measure, int kind, double count, double seconds, double bytes)
{
    assert(kind >= 0 && kind < KIND_COUNT && bytes >= 0);
    measure->kinds[kind].count += count;
    measure->kinds[kind].seconds += seconds;
    measure->kinds[kind].bytes += bytes;
}

// Work of the step that stands inside a slot and runs in its place where one thing is done after
// another.
static double inside_s(const struct engine *engine, int first, int last)
{
    const struct measure *measure = engine->measure;
    double seconds = 0;
    for (int t = first; t < last && !is_beside(engine); t++) {
        if (task_kind_is_once(engine->script->tasks[t].kind))
            seconds += measure->ends[t] - measure->starts[t];
    }
    return seconds;
}

// What the slots of the step took but for what waits for others there. Of streams beside the host
// only what is timed in every step is known.
static int64_t work_ns(const struct engine *engine)
{
    const struct measure *measure = engine->measure;
    double work_s = 0;
    for (int t = 0; t < engine->script->task_count; t++) {
        if (begins_slot(engine, t)) {
            int last = end_of_slot(engine, t);
            work_s += measure->ends[last] - measure->starts[t] - inside_s(engine, t, last);
        }
        bool is_there = is_work(engine, t) && is_timed(engine, t) &&
                        engine->script->tasks[t].stream == STREAM_COMPUTE;
        if (is_there && engine_waits(engine, t)) work_s -= measure->ends[t] - measure->starts[t];
    }
    return work_s > 0 ? (int64_t)(work_s * 1e9) : 0;
}

static void add_step(struct engine *engine)
{
    struct measure *measure = engine->measure;
    for (int t = 0; t < engine->script->task_count; t++) {
        double seconds = measure->ends[t] - measure->starts[t];
        int inner = inner_kind(engine, t);
        bool is_alone = is_timed_alone(engine, t);
        if (!engine->scale.skips) tasks_add(engine, t, measure->bytes[t], is_alone, seconds);
        // What runs as one counts once, where it begins.
        if (inner >= 0 && is_alone && !engine->prepared[t].is_joined)
            add(measure, inner, 1, seconds, (double)measure->bytes[t]);
        if (has_own_kind(engine, t)) {
            add(measure, script_task_id(engine->script, t).kind, 1, seconds,
                (double)measure->bytes[t]);
        } else if (begins_slot(engine, t)) {
            int last = end_of_slot(engine, t);
            double taken_s = measure->ends[last] - measure->starts[t] - inside_s(engine, t, last);
            add(measure, slot_id(engine, t).kind, 1, taken_s, 0);
        }
    }
    measure->measured_steps++;
    engine->moved_sum_s += engine->moved_s;
    traffic_end_step(engine);
    measure->updated_steps += !engine->scale.skips;
    measure->fine_steps += measure_is_fine(engine);
    assert(measure->updated_steps <= measure->measured_steps);
}

bool measure_step(struct engine *engine, double step_s)
{
    assert(step_s >= 0 && "the clock does not go back");
    struct measure *measure = engine->measure;
    // The first step touches memory for the first time.
    bool counts = engine->step > engine->first_step ||
                  engine->request->options->steps == engine->first_step + 1;
    if (!counts) return true;
    if (is_beside(engine)) read_events(engine);
    engine->work_ns = work_ns(engine);
    add_step(engine);
    if (measure->measured_steps > 1 && step_s >= measure->best_s) return true;
    measure->best_s = step_s;
    measure->best_began_s = measure->step_began_s;
    for (int t = 0; t < engine->script->task_count; t++) {
        measure->best_starts[t] = measure->starts[t];
        measure->best_ends[t] = measure->ends[t];
    }
    return true;
}

static struct run_kind kind_of(int kind)
{
    if (kind < FIRST_OPERATOR) return (struct run_kind){.group = RUN_TASK, .index = kind};
    if (kind < FIRST_COLLECTIVE)
        return (struct run_kind){.group = RUN_OPERATOR, .index = kind - FIRST_OPERATOR};
    int collective = kind - FIRST_COLLECTIVE;
    assert(kind < KIND_COUNT);
    return (struct run_kind){.group = RUN_COLLECTIVE,
                             .index = collective % COLLECTIVE_COUNT,
                             .axis = (enum axis)(collective / COLLECTIVE_COUNT)};
}

static bool sum_kinds(struct engine *engine, struct run_result *result)
{
    struct measure *measure = engine->measure;
    double *values = ARENA_NEW(engine->arena, double, 3 * KIND_COUNT);
    for (int k = 0; k < KIND_COUNT; k++) {
        bool is_operator = k >= FIRST_OPERATOR && k < FIRST_COLLECTIVE;
        int steps = is_operator ? measure->fine_steps : measure->measured_steps;
        if (steps == 0) steps = 1;
        values[3 * k] = measure->kinds[k].count / steps;
        values[3 * k + 1] = measure->kinds[k].seconds / steps;
        values[3 * k + 2] = measure->kinds[k].bytes / steps;
        assert(values[3 * k] >= 0 && values[3 * k + 2] >= 0);
    }
    const char *fault = engine->transport->host_sum(engine->world, values, 3 * KIND_COUNT);
    if (!engine_ok(engine, -1, fault)) return false;
    result->kinds = ARENA_NEW(engine->arena, struct run_kind, KIND_COUNT);
    for (int k = 0; k < KIND_COUNT; k++) {
        if (values[3 * k] <= 0) continue;
        struct run_kind *made = &result->kinds[result->kind_count++];
        *made = kind_of(k);
        made->count = values[3 * k];
        made->measured_s = values[3 * k + 1];
        made->bytes = values[3 * k + 2];
    }
    return true;
}

// Spans of this rank as four numbers each: task, stream, start, end.
enum { SPAN_NUMBERS = 4 };

// Rounded, so that ends and starts that are one stay one.
static int64_t ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

static int64_t own_spans(struct engine *engine, int64_t *numbers)
{
    const struct measure *measure = engine->measure;
    int64_t count = 0;
    for (int t = 0; t < engine->script->task_count; t++) {
        bool is_slot = begins_slot(engine, t);
        bool is_inside = is_work(engine, t) && !is_slot;
        const struct instr *instr = instr_of(engine, t);
        bool is_collective =
            instr && instr->collective != COLLECTIVE_NONE && instr->collective != COLLECTIVE_SLICE;
        if (is_inside && !is_collective) continue;
        if (engine->script->tasks[t].kind == TASK_LOSS) continue;
        struct task_id id = is_slot ? slot_id(engine, t) : script_task_id(engine->script, t);
        int last = is_slot ? end_of_slot(engine, t) : t;
        int stream = is_slot ? STREAM_COMPUTE : (int)engine->script->tasks[t].stream;
        if (numbers) {
            int64_t *at = numbers + count * SPAN_NUMBERS;
            at[0] = task_number(&engine->program->shape, &id);
            at[1] = stream;
            at[2] = measure->shift_ns + ns(measure->best_starts[t]);
            at[3] = measure->shift_ns + ns(measure->best_ends[last]);
        }
        count++;
    }
    return count;
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->stream != y->stream) return (int)x->stream - (int)y->stream;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

// Every rank counts from where it began the step itself: ranks of one host, which share a clock,
// count from the first of them. Clocks of several hosts are further apart than a step is long.
static bool find_shift(struct engine *engine)
{
    struct measure *measure = engine->measure;
    int ranks = engine->program->mesh.rank_count;
    int64_t mine = ns(measure->best_began_s), least, most;
    int64_t *all = ARENA_NEW(engine->arena, int64_t, ranks);
    const char *fault = engine->transport->host_gather(engine->world, &mine, all, 1);
    if (!engine_ok(engine, -1, fault)) return false;
    least = most = all[0];
    for (int r = 1; r < ranks; r++) {
        if (all[r] < least) least = all[r];
        if (all[r] > most) most = all[r];
    }
    if (most - least < ns(measure->best_s)) measure->shift_ns = mine - least;
    return true;
}

static bool gather_trace(struct engine *engine, struct run_result *result)
{
    int ranks = engine->program->mesh.rank_count;
    if (!find_shift(engine)) return false;
    int64_t count = own_spans(engine, NULL), most = 0;
    int64_t *counts = ARENA_NEW(engine->arena, int64_t, ranks);
    const char *fault = engine->transport->host_gather(engine->world, &count, counts, 1);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++)
        if (counts[r] > most) most = counts[r];
    int width = (int)most * SPAN_NUMBERS;
    int64_t *mine = ARENA_NEW(engine->arena, int64_t, width);
    int64_t *all = ARENA_NEW(engine->arena, int64_t, (int64_t)width * ranks);
    own_spans(engine, mine);
    assert(count <= most && "room for the spans of the rank with most");
    fault = engine->transport->host_gather(engine->world, mine, all, width);
    if (!engine_ok(engine, -1, fault)) return false;
    struct trace *trace = &result->trace;
    trace->rank_count = ranks;
    trace->spans = ARENA_NEW(engine->arena, struct span, most * ranks);
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < counts[r]; i++) {
            const int64_t *at = all + (int64_t)r * width + i * SPAN_NUMBERS;
            trace->spans[trace->span_count++] =
                (struct span){r, (enum stream)at[1], (int)at[0], at[2], at[3]};
        }
    }
    qsort(trace->spans, (size_t)trace->span_count, sizeof *trace->spans, by_start);
    const struct measure *measure = engine->measure;
    return levels_gather(engine, measure->best_starts, measure->shift_ns, result->state_bytes,
                         trace);
}

bool measure_finish(struct engine *engine, struct run_result *result)
{
    return sum_kinds(engine, result) &&
           moving_finish(engine, engine->measure->measured_steps, result) &&
           gather_trace(engine, result) && traffic_finish(engine, result) &&
           tasks_finish(engine, engine->measure->updated_steps, result);
}
