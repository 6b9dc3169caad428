#include "executor/engine/engine.h"

#include <assert.h>

// Payloads by who sends them to whom, counted where exchanges are called, as the payloads are that
// are priced: a ring passes a gathered or scattered payload on to the next rank of its group, what
// goes to every peer by itself goes there.

struct sent_bytes {
    int64_t *step_bytes;  // [rank] sent to it in this step
    double *bytes;        // in all steps that were measured
    int step_count;
};

bool traffic_open(struct engine *engine)
{
    int ranks = engine->program->mesh.rank_count;
    engine->traffic = ARENA_NEW(engine->arena, struct sent_bytes, 1);
    engine->traffic->step_bytes = ARENA_NEW(engine->arena, int64_t, ranks);
    engine->traffic->bytes = ARENA_NEW(engine->arena, double, ranks);
    return true;
}

void traffic_start_step(struct engine *engine)
{
    for (int r = 0; r < engine->program->mesh.rank_count; r++)
        engine->traffic->step_bytes[r] = 0;
}

void traffic_to(struct engine *engine, int rank, int64_t bytes)
{
    assert(rank >= 0 && rank < engine->program->mesh.rank_count);
    if (engine->traffic && rank != engine->rank) engine->traffic->step_bytes[rank] += bytes;
}

void traffic_ring(struct engine *engine, const struct member_group *group,
                  enum collective collective, int64_t bytes)
{
    int64_t passes = collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    int next = group->ranks[(group->index + 1) % group->count];
    traffic_to(engine, next, passes * bytes * (group->count - 1) / group->count);
}

void traffic_end_step(struct engine *engine)
{
    struct sent_bytes *traffic = engine->traffic;
    for (int r = 0; r < engine->program->mesh.rank_count; r++)
        traffic->bytes[r] += (double)traffic->step_bytes[r];
    traffic->step_count++;
}

bool traffic_finish(struct engine *engine, struct run_result *result)
{
    const struct sent_bytes *traffic = engine->traffic;
    int ranks = engine->program->mesh.rank_count;
    int64_t *mine = ARENA_NEW(engine->arena, int64_t, ranks);
    int64_t *all = ARENA_NEW(engine->arena, int64_t, (int64_t)ranks * ranks);
    for (int r = 0; r < ranks && traffic->step_count > 0; r++)
        mine[r] = (int64_t)(traffic->bytes[r] / traffic->step_count + 0.5);
    const char *fault = engine->transport->host_gather(engine->world, mine, all, ranks);
    result->traffic_bytes = all;
    return engine_ok(engine, -1, fault);
}
