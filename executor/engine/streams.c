#include "executor/engine/engine.h"

#include <assert.h>

// The script's waits as events. A task that another stream waits for leaves a mark behind it; marks
// are used again once all who wait for them have been put. Where everything has run when its call
// returns there is nothing to wait for.

// Events beside those of tasks: for what a task puts on two streams.
enum { OWN_MARKS = MARK_COUNT };

struct streams {
    struct event **events;  // [OWN_MARKS + marks of tasks]
    int event_count;
    int *mark;                   // [task]: event that it leaves; -1: none
    bool is_used[STREAM_COUNT];  // by a task
};

// Else every call has done its work when it returns.
static bool is_beside(const struct engine *engine)
{
    return engine->backend->is_asynchronous;
}

// Each task's mark lives from it to the last that waits for it.
static int number_marks(struct engine *engine, int *mark)
{
    const struct script *script = engine->script;
    int *last = ARENA_NEW(engine->arena, int, script->task_count + 1), made = 0, free_count = 0;
    int *free_marks = ARENA_NEW(engine->arena, int, script->task_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        mark[t] = -1;
        for (int i = 0; i < script->tasks[t].wait_count; i++)
            last[script->tasks[t].waits[i]] = t;
    }
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->wait_count; i++) {
            int other = task->waits[i];
            if (last[other] == t) free_marks[free_count++] = mark[other];
        }
        if (last[t] > 0) mark[t] = free_count > 0 ? free_marks[--free_count] : OWN_MARKS + made++;
    }
    assert(free_count == made && "who waits last gives a mark back, once");
    return OWN_MARKS + made;
}

bool streams_open(struct engine *engine)
{
    struct streams *streams = engine->streams = ARENA_NEW(engine->arena, struct streams, 1);
    if (!is_beside(engine)) return true;
    int tasks = engine->script->task_count;
    streams->mark = ARENA_NEW(engine->arena, int, tasks + 1);
    int count = number_marks(engine, streams->mark);
    streams->events = ARENA_NEW(engine->arena, struct event *, count);
    for (int t = 0; t < tasks; t++)
        streams->is_used[engine->script->tasks[t].stream] = true;
    // Rings and starts of steps use these whatever the tasks do.
    streams->is_used[STREAM_COMPUTE] = streams->is_used[STREAM_CP] = true;
    for (; streams->event_count < count; streams->event_count++) {
        struct event *made = engine->backend->event_new(engine->device);
        if (!made) return engine_ok(engine, -1, "no event left on the device");
        streams->events[streams->event_count] = made;
    }
    return true;
}

void streams_close(struct engine *engine)
{
    struct streams *streams = engine->streams;
    for (int i = 0; streams && i < streams->event_count; i++)
        engine->backend->event_free(engine->device, streams->events[i]);
}

static bool await(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct streams *streams = engine->streams;
    for (int i = 0; i < of->wait_count && is_beside(engine); i++) {
        struct event *event = streams->events[streams->mark[of->waits[i]]];
        const char *fault = engine->backend->event_wait(engine->device, of->stream, event);
        if (!engine_ok(engine, task, fault)) return false;
    }
    return true;
}

// What runs as one waits for what any of it does.
bool streams_begin(struct engine *engine, int task)
{
    const struct prepared *of = &engine->prepared[task];
    if (of->is_joined) return true;
    bool done = await(engine, task);
    for (int i = 1; i < of->joined && done; i++)
        done = await(engine, of->members[i]);
    return done;
}

bool streams_is_awaited(const struct engine *engine, int task)
{
    return is_beside(engine) && engine->streams->mark[task] >= 0;
}

bool streams_end(struct engine *engine, int task)
{
    if (!streams_is_awaited(engine, task)) return true;
    const struct streams *streams = engine->streams;
    struct event *event = streams->events[streams->mark[task]];
    enum stream stream = engine->script->tasks[task].stream;
    return engine_ok(engine, task, engine->backend->event_record(engine->device, stream, event));
}

bool streams_mark(struct engine *engine, int task, enum stream_mark mark, enum stream stream)
{
    assert(mark < MARK_COUNT && stream < STREAM_COUNT);
    if (!is_beside(engine)) return true;
    struct event *event = engine->streams->events[mark];
    return engine_ok(engine, task, engine->backend->event_record(engine->device, stream, event));
}

bool streams_follow(struct engine *engine, int task, enum stream_mark mark, enum stream stream)
{
    if (!is_beside(engine)) return true;
    struct event *event = engine->streams->events[mark];
    return engine_ok(engine, task, engine->backend->event_wait(engine->device, stream, event));
}

bool streams_join(struct engine *engine, int task, enum stream behind, enum stream stream)
{
    return streams_mark(engine, task, MARK_JOIN, stream) &&
           streams_follow(engine, task, MARK_JOIN, behind);
}

bool streams_settle(struct engine *engine)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (is_beside(engine) && !engine->streams->is_used[s]) continue;
        if (!is_beside(engine) && s != STREAM_COMPUTE) continue;
        const char *fault = engine->backend->synchronize(engine->device, (enum stream)s);
        if (!engine_ok(engine, -1, fault)) return false;
    }
    return true;
}
