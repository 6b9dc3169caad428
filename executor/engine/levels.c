#include "executor/engine/engine.h"

#include <assert.h>
#include <stdlib.h>

// What a rank held while each of its tasks ran: the state, which stands throughout, and the values
// of the arena from the task that makes them to the last that touches them. Bytes are those of the
// plan's addresses as they were run, moments those that were measured.

// Two numbers a level: when, in nanoseconds, and how many bytes.
enum { LEVEL_NUMBERS = 2 };

static int64_t own_levels(struct engine *engine, const double *starts, int64_t shift_ns,
                          int64_t state_bytes, int64_t *numbers)
{
    int tasks = engine->script->task_count;
    int64_t *change = ARENA_NEW(engine->arena, int64_t, tasks + 1), alive = state_bytes, count = 0;
    if (!engine->ends) poison_prepare(engine);
    for (int i = 0; i < engine->end_count; i++) {
        const struct value_end *value = &engine->ends[i];
        change[value->first] += value->bytes * engine->widen;
        change[value->task + 1] -= value->bytes * engine->widen;
    }
    for (int t = 0; t < tasks; t++) {
        alive += change[t];
        if (t > 0 && change[t] == 0) continue;
        numbers[LEVEL_NUMBERS * count] = shift_ns + (int64_t)(starts[t] * 1e9 + 0.5);
        numbers[LEVEL_NUMBERS * count++ + 1] = alive;
    }
    assert(alive + change[tasks] == state_bytes && "what was made is dead behind the last task");
    return count;
}

bool levels_gather(struct engine *engine, const double *starts, int64_t shift_ns,
                   int64_t state_bytes, struct trace *trace)
{
    // Beside each other tasks are not in the script's order, and only some are timed.
    if (engine->backend->is_asynchronous) return true;
    int ranks = engine->program->mesh.rank_count, tasks = engine->script->task_count;
    int64_t *mine = ARENA_NEW(engine->arena, int64_t, (int64_t)LEVEL_NUMBERS * (tasks + 1));
    int64_t count = own_levels(engine, starts, shift_ns, state_bytes, mine), most = 0;
    int64_t *counts = ARENA_NEW(engine->arena, int64_t, ranks);
    const char *fault = engine->transport->host_gather(engine->world, &count, counts, 1);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++)
        if (counts[r] > most) most = counts[r];
    int width = (int)most * LEVEL_NUMBERS;
    int64_t *sent = ARENA_NEW(engine->arena, int64_t, width);
    int64_t *all = ARENA_NEW(engine->arena, int64_t, (int64_t)width * ranks);
    for (int64_t i = 0; i < LEVEL_NUMBERS * count; i++)
        sent[i] = mine[i];
    fault = engine->transport->host_gather(engine->world, sent, all, width);
    if (!engine_ok(engine, -1, fault)) return false;
    struct trace_level *levels = ARENA_NEW(engine->arena, struct trace_level, most * ranks);
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < counts[r]; i++) {
            const int64_t *at = all + (int64_t)r * width + LEVEL_NUMBERS * i;
            levels[trace->level_count++] = (struct trace_level){r, at[0], (double)at[1]};
        }
    }
    trace->levels = levels;
    return true;
}
