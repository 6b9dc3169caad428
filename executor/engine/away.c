#include "executor/engine/away.h"
#include "executor/nvme.h"

#include <assert.h>
#include <string.h>

// Parameters on NVMe: a fetch finds them in a room of the host, into which they were read while the
// tasks since the fetch before it ran, and what an update has made of them is written out of
// another room. What was written is there when it is read. Each room is as wide as the widest block
// (cost_models/memory.c).

enum { ROOMS = 2, NOTHING = -1 };

struct room {
    char *memory;
    int64_t request;  // 1 + the last one; 0: none
    int holds;        // which of `fetches`, or NOTHING
};

struct away {
    struct nvme *nvme;
    int *nth;      // [task] which of the fetches it is
    int *fetches;  // tasks, in their order
    int fetch_count;
    struct room rooms[ROOMS];
    char *leaving;
    int64_t written;  // 1 + the request that empties it; 0: none
};

static int64_t unit_bytes(const struct engine *engine, int unit)
{
    return engine->script->units[unit].elements * engine->compute_bytes;
}

static int64_t widest_block(const struct engine *engine)
{
    const struct script *script = engine->script;
    int64_t widest = 0, bytes = 0;
    for (int u = 0; u < script->unit_count; u++) {
        const struct script_unit *unit = &script->units[u], *before = unit - 1;
        bool goes_on = u > 0 && before->chunk == unit->chunk && before->position == unit->position;
        bytes = (goes_on ? bytes : 0) + (state_unit_leaves(engine, u) ? unit_bytes(engine, u) : 0);
        if (bytes > widest) widest = bytes;
    }
    return widest;
}

static void list_fetches(struct engine *engine, struct away *away)
{
    const struct script *script = engine->script;
    away->nth = ARENA_NEW(engine->arena, int, script->task_count + 1);
    away->fetches = ARENA_NEW(engine->arena, int, script->task_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *of = &script->tasks[t];
        bool is_fetch = of->kind == TASK_INSTR &&
                        engine_block(engine, of)->instrs[of->instr].collective == COLLECTIVE_FETCH;
        if (!is_fetch) continue;
        away->nth[t] = away->fetch_count;
        away->fetches[away->fetch_count++] = t;
    }
}

bool away_open(struct engine *engine)
{
    struct away *away = ARENA_NEW(engine->arena, struct away, 1);
    int64_t widest = widest_block(engine);
    int64_t bytes = engine->state.away_weight_count * engine->compute_bytes;
    list_fetches(engine, away);
    for (int i = 0; i < ROOMS; i++) {
        away->rooms[i] = (struct room){host_memory(engine, widest + 1), 0, NOTHING};
        if (!away->rooms[i].memory) return false;
    }
    away->leaving = host_memory(engine, widest + 1);
    if (!away->leaving) return false;
    away->nvme = nvme_open(engine->arena, engine->request->options->nvme, bytes, engine->err);
    if (!away->nvme) return false;
    engine->nvme_bytes += bytes;
    engine->drives[engine->drive_count++] = away->nvme;
    engine->host_bytes += (ROOMS + 1) * widest;
    engine->away = away;
    return true;
}

void away_close(struct engine *engine)
{
    if (engine->away) nvme_close(engine->away->nvme);
}

void away_start(struct engine *engine)
{
    for (int i = 0; i < ROOMS && engine->away; i++)
        engine->away->rooms[i].holds = NOTHING;
}

static bool settle_room(struct engine *engine, int task, struct room *room)
{
    const char *fault = room->request ? nvme_wait(engine->away->nvme, room->request - 1) : NULL;
    room->request = 0;
    return engine_ok(engine, task, fault);
}

static bool start_reads(struct engine *engine, int task, int nth)
{
    assert(nth >= 0 && nth < engine->away->fetch_count);
    struct away *away = engine->away;
    struct room *room = &away->rooms[nth % ROOMS];
    const struct script_task *of = &engine->script->tasks[away->fetches[nth]];
    char *to = room->memory;
    if (room->holds == nth) return true;
    if (!settle_room(engine, task, room)) return false;
    for (int u = of->unit; u < of->unit + of->unit_count; u++) {
        int64_t bytes = unit_bytes(engine, u);
        int64_t at = engine->state.weight_at[u] * engine->compute_bytes;
        room->request = 1 + nvme_start(away->nvme, NVME_READ, to, bytes, at);
        to += bytes;
    }
    room->holds = nth;
    return true;
}

char *away_fetch(struct engine *engine, int task)
{
    struct away *away = engine->away;
    int nth = away->nth[task];
    struct room *room = &away->rooms[nth % ROOMS];
    assert(away->fetches[nth] == task);
    if (!start_reads(engine, task, nth) || !settle_room(engine, task, room)) return NULL;
    // No update comes between: weights that a step still reads are not written in it.
    if (nth + 1 < away->fetch_count && !start_reads(engine, task, nth + 1)) return NULL;
    return room->memory;
}

bool away_put(struct engine *engine, int task, const char *from, int64_t at, int64_t bytes)
{
    assert(at >= 0 && at + bytes <= engine->state.away_weight_count * engine->compute_bytes);
    struct away *away = engine->away;
    const char *fault = away->written ? nvme_wait(away->nvme, away->written - 1) : NULL;
    if (!engine_ok(engine, task, fault)) return false;
    memcpy(away->leaving, from, (size_t)bytes);
    away->written = 1 + nvme_start(away->nvme, NVME_WRITE, away->leaving, bytes, at);
    return true;
}

bool away_get(struct engine *engine, char *to, int64_t at, int64_t bytes)
{
    assert(at >= 0 && at + bytes <= engine->state.away_weight_count * engine->compute_bytes);
    struct nvme *nvme = engine->away->nvme;
    return engine_ok(engine, -1, nvme_wait(nvme, nvme_start(nvme, NVME_READ, to, bytes, at)));
}

bool away_finish(struct engine *engine)
{
    const struct away *away = engine->away;
    const char *fault = away && away->written ? nvme_wait(away->nvme, away->written - 1) : NULL;
    return engine_ok(engine, -1, fault);
}
