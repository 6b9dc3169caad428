#include "core/progress.h"
#include "executor/engine/engine.h"

#include <assert.h>
#include <time.h>

// Ranks that are slow: who stays so, and one that is made so.

void slow_open(struct engine *engine)
{
    const struct mesh *mesh = &engine->program->mesh;
    if (engine->rank != 0) return;
    int *stages = ARENA_NEW(engine->arena, int, mesh->rank_count);
    for (int r = 0; r < mesh->rank_count; r++)
        stages[r] = mesh_stage_of(mesh, r);
    engine->stragglers = stragglers_new(engine->arena, stages,
                                        engine->request->options->stage_work_s, mesh->rank_count);
}

struct straggler slow_take(struct engine *engine, const int64_t *worked_ns, double step_s)
{
    if (!engine->stragglers) return (struct straggler){.rank = -1};
    // Ranks tell what they worked in the step before, whose number this is from 1 on.
    return stragglers_take(engine->stragglers, engine->step, worked_ns, step_s);
}

static bool is_slow(const struct engine *engine)
{
    return engine->request->options->slow_ratio > 1 &&
           engine->request->options->slow_rank == engine->rank;
}

// What this thread worked, without what others on its core did meanwhile.
static double worked_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Pauses shorter than this take as long as the kernel likes: they are saved up.
static const double PAUSE_S = 1e-3;

static void pause_for(struct engine *engine, double least_s)
{
    double began_s = clock_s(), owed_s = engine->slow_owed_s;
    if (owed_s <= least_s) return;
    struct timespec pause = {.tv_sec = (time_t)owed_s};
    pause.tv_nsec = (long)((owed_s - (double)pause.tv_sec) * 1e9);
    nanosleep(&pause, NULL);
    // Who slept too long has it back with the next.
    engine->slow_owed_s -= clock_s() - began_s;
}

void slow_begin(struct engine *engine, int task)
{
    if (!is_slow(engine)) return;
    // What others wait for is as late as all the work before it.
    if (engine_waits(engine, task)) pause_for(engine, 0);
    engine->slow_began_s = worked_s();
}

void slow_end(struct engine *engine, int task)
{
    if (!is_slow(engine) || engine_waits(engine, task)) return;
    double took_s = worked_s() - engine->slow_began_s;
    assert(took_s >= 0 && "a thread's time does not go back");
    engine->slow_owed_s += took_s * (engine->request->options->slow_ratio - 1);
    pause_for(engine, PAUSE_S);
}
