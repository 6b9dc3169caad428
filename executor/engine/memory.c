#include "executor/engine/engine.h"

#include <assert.h>

// What a rank holds on its device, its host and its drive.

bool memory_limit(struct engine *engine, struct run_result *result)
{
    int64_t bytes = engine->request->options->device_memory_bytes;
    result->device_limit_bytes = bytes;
    if (bytes == 0) return true;
    assert(engine->backend->limit && "run_check_limit comes first");
    return engine_ok(engine, -1, engine->backend->limit(engine->device, bytes, true));
}

// Of the most that was taken at a time, what the plan places: that is what a limit is of.
static int64_t placed_peak_bytes(const struct engine *engine)
{
    return engine->backend->peak_bytes(engine->device) - engine->beside_bytes;
}

// The largest of a number of each rank.
static bool most_of(struct engine *engine, int64_t mine, int64_t *most)
{
    int ranks = engine->program->mesh.rank_count;
    int64_t *all = ARENA_NEW(engine->arena, int64_t, ranks);
    const char *fault = engine->transport->host_gather(engine->world, &mine, all, 1);
    if (!engine_ok(engine, -1, fault)) return false;
    *most = all[0];
    for (int r = 1; r < ranks; r++)
        if (all[r] > *most) *most = all[r];
    return true;
}

bool memory_hold(struct engine *engine)
{
    int64_t bytes = engine->request->options->device_memory_bytes, most;
    if (bytes == 0 || engine->step > engine->first_step) return true;
    if (!most_of(engine, placed_peak_bytes(engine), &most)) return false;
    if (most > bytes)
        return err_set(engine->err, ERR_SYSTEM,
                       "a step does not fit into the %lld bytes of device memory: %lld are the "
                       "least",
                       (long long)bytes, (long long)most);
    bytes += engine->beside_bytes;
    return engine_ok(engine, -1, engine->backend->limit(engine->device, bytes, false));
}

void memory_fill(struct engine *engine, struct run_result *result)
{
    const struct script *script = engine->script;
    const struct state *state = &engine->state;
    int64_t used = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->output_count; i++) {
            const struct script_operand *operand = &task->outputs[i];
            int64_t end = operand->offset + operand->bytes;
            if (operand->place == PLACE_ARENA && end > used) used = end;
        }
    }
    int moments =
        (state->masters != NULL) + (state->first_moments != NULL) + (state->second_moments != NULL);
    result->arena_bytes = script->arena_bytes * engine->widen;
    result->arena_used_bytes = used * engine->widen;
    result->state_bytes =
        state->weight_count * engine->compute_bytes +
        (state->gradient_count + moments * state->moment_count) * engine->real_bytes +
        weight_casts_bytes(engine);
    result->staging_bytes = engine->staging_bytes;
    if (engine->backend->own_bytes)
        result->staging_bytes += engine->backend->own_bytes(engine->device);
    result->replay_count = segments_replayed(engine);
    result->joined_count = 0;
    for (int t = 0; t < script->task_count; t++)
        result->joined_count += engine->prepared[t].is_joined;
}

bool memory_gather(struct engine *engine, struct run_result *result)
{
    int ranks = engine->program->mesh.rank_count;
    enum { DEVICE, HOST, NVME, TAKEN, COUNT };
    bool is_limited = engine->request->options->device_memory_bytes > 0;
    int64_t mine[COUNT] = {result->arena_used_bytes + result->state_bytes, engine->host_bytes,
                           engine->nvme_bytes, is_limited ? placed_peak_bytes(engine) : 0};
    int64_t *all = ARENA_NEW(engine->arena, int64_t, COUNT * ranks);
    const char *fault = engine->transport->host_gather(engine->world, mine, all, COUNT);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++) {
        const int64_t *of = all + (int64_t)r * COUNT;
        if (of[DEVICE] > result->peak_bytes) result->peak_bytes = of[DEVICE];
        if (of[HOST] > result->host_peak_bytes) result->host_peak_bytes = of[HOST];
        if (of[NVME] > result->nvme_bytes) result->nvme_bytes = of[NVME];
        if (of[TAKEN] > result->device_peak_bytes) result->device_peak_bytes = of[TAKEN];
    }
    return true;
}
