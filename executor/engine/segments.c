#include "executor/engine/engine.h"

#include <assert.h>

// Segments: runs of operators of one slot on the compute stream that neither wait for another
// stream nor are waited for in between, and of which the host reads nothing. Where the back end can
// record what is put on a stream, a segment is recorded once and replayed as one launch from then
// on. Its addresses are those of the script, the same in every step; what changes from step to step
// is the keys of random numbers, which recorded calls read from the device's memory.
//
// The first step runs everything by itself, so that kernels have what memory they need, and so does
// the step in which operators are timed.

struct segment {
    int first, count;  // tasks
    struct capture *capture;
    bool is_refused;  // by the back end: runs by itself
};

struct segments {
    struct segment *segments;
    int count, next;
    uint64_t *keys, *device_keys;  // [task]; the host's copy, the device's
    int64_t replay_count;
};

static bool can_capture(const struct engine *engine)
{
    return engine->backend->capture_begin && !engine->request->options->poison &&
           !engine->request->options->launches_each;
}

// Of what is put on the compute stream and no more.
bool segments_is_plain(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (of->stream != STREAM_COMPUTE || of->kind != TASK_INSTR) return false;
    const struct instr *instr = &engine_block(engine, of)->instrs[of->instr];
    bool has_rows = engine->prepared[task].rows >= 0;
    return instr->inner == 0 && !ring_is(engine, task) && !has_rows;
}

// A wait or a mark in between would have to be recorded too.
static bool segments_goes_on(const struct engine *engine, int task)
{
    const struct script_task *tasks = engine->script->tasks;
    return segments_is_plain(engine, task) && tasks[task].slot == tasks[task - 1].slot &&
           joins_wait_count(engine, task) == 0 && !streams_is_awaited(engine, task - 1);
}

bool segments_open(struct engine *engine)
{
    struct segments *segments = engine->segments = ARENA_NEW(engine->arena, struct segments, 1);
    int tasks = engine->script->task_count;
    if (!can_capture(engine)) return true;
    segments->segments = ARENA_NEW(engine->arena, struct segment, tasks + 1);
    for (int t = 0; t < tasks;) {
        struct segment segment = {.first = t, .count = 1};
        bool begins = segments_is_plain(engine, t);
        for (t++; begins && t < tasks && segments_goes_on(engine, t); t++)
            segment.count++;
        if (begins && segment.count > 1) segments->segments[segments->count++] = segment;
    }
    int64_t bytes = (tasks + 1) * (int64_t)sizeof *segments->keys;
    segments->keys = (uint64_t *)(void *)host_memory(engine, bytes);
    assert(2 * segments->count <= tasks && "segments have no task in common");
    if (!segments->keys) return false;
    void *keys = NULL;
    engine->beside_bytes += bytes;
    const char *fault = engine->backend->allocate(engine->device, bytes, &keys);
    segments->device_keys = keys;
    return engine_ok(engine, -1, fault);
}

void segments_close(struct engine *engine)
{
    struct segments *segments = engine->segments;
    for (int i = 0; segments && i < segments->count; i++) {
        if (segments->segments[i].capture)
            engine->backend->capture_free(engine->device, segments->segments[i].capture);
    }
    if (segments && segments->device_keys)
        engine->backend->release(engine->device, segments->device_keys);
}

// The first step warms up, and the fine one times each operator: both run one by one.
static bool replays(const struct engine *engine)
{
    return engine->segments->count > 0 && engine->step > engine->first_step &&
           !measure_is_fine(engine);
}

bool segments_start(struct engine *engine)
{
    struct segments *segments = engine->segments;
    segments->next = 0;
    if (!replays(engine)) return true;
    for (int i = 0; i < segments->count; i++) {
        const struct segment *segment = &segments->segments[i];
        for (int t = segment->first; t < segment->first + segment->count; t++) {
            const struct script_task *of = &engine->script->tasks[t];
            // Slices are of no operator.
            bool is_of_op = engine_block(engine, of)->instrs[of->instr].op >= 0;
            if (is_of_op) segments->keys[t] = call_key(engine, t);
        }
    }
    int64_t bytes = engine->script->task_count * (int64_t)sizeof *segments->keys;
    return engine_ok(engine, -1,
                     host_copy(engine, STREAM_COMPUTE, COPY_FROM_HOST, segments->device_keys,
                               segments->keys, bytes));
}

const uint64_t *segments_key_at(const struct engine *engine, int task)
{
    const struct segments *segments = engine->segments;
    return segments && engine->is_capturing ? segments->device_keys + task : NULL;
}

static bool run_each(struct engine *engine, const struct segment *segment)
{
    for (int t = segment->first; t < segment->first + segment->count; t++) {
        struct arena_mark mark = arena_mark(engine->scratch);
        bool done = task_run(engine, t);
        arena_reset(engine->scratch, mark);
        if (!done) return false;
    }
    return true;
}

// False: it cannot be recorded, which is no fault.
static bool capture(struct engine *engine, struct segment *segment)
{
    assert(!engine->is_capturing && !segment->capture && "one recording at a time");
    const struct backend *backend = engine->backend;
    if (backend->capture_begin(engine->device, STREAM_COMPUTE)) return false;
    engine->is_capturing = true;
    bool done = run_each(engine, segment);
    engine->is_capturing = false;
    const char *fault = backend->capture_end(engine->device, STREAM_COMPUTE, &segment->capture);
    if (done && !fault) return true;
    if (segment->capture) backend->capture_free(engine->device, segment->capture);
    segment->capture = NULL;
    *engine->err = (struct err){0};
    return false;
}

static bool replay(struct engine *engine, struct segment *segment, bool *is_done)
{
    const struct backend *backend = engine->backend;
    bool is_stale = true;
    const char *fault = NULL;
    *is_done = false;
    for (int tries = 0; tries < 2 && is_stale && !fault; tries++) {
        if (!segment->capture && !capture(engine, segment)) {
            segment->is_refused = true;
            return true;
        }
        fault = backend->replay(engine->device, STREAM_COMPUTE, segment->capture, &is_stale);
        if (!is_stale) continue;
        backend->capture_free(engine->device, segment->capture);
        segment->capture = NULL;
    }
    *is_done = !is_stale;
    engine->segments->replay_count += *is_done;
    return engine_ok(engine, segment->first, fault);
}

int segments_run(struct engine *engine, int task)
{
    struct segments *segments = engine->segments;
    struct segment *segment = &segments->segments[segments->next];
    bool is_next = segments->next < segments->count && segment->first == task;
    assert((segments->next == segments->count || !replays(engine) || segment->first >= task) &&
           "a segment was passed by");
    if (!is_next || !replays(engine)) return 0;
    int last = task + segment->count - 1;
    bool is_done = false;
    segments->next++;
    bool right = streams_begin(engine, task) && measure_begin(engine, task);
    if (right && !segment->is_refused) right = replay(engine, segment, &is_done);
    if (right && !is_done) right = run_each(engine, segment);
    right = right && measure_end(engine, last) && streams_end(engine, last);
    return right ? segment->count : -1;
}

int64_t segments_replayed(const struct engine *engine)
{
    return engine->segments->replay_count;
}
