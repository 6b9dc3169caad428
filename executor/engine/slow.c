#include "core/progress.h"
#include "executor/engine/engine.h"

#include <time.h>

// Ranks that are slow: who stays so, and one that is made so.

static int stage_of(const struct mesh *mesh, int rank)
{
    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axes[a].parent == AXIS_PP) return mesh_coordinate(mesh, a, rank);
    }
    return 0;
}

void slow_open(struct engine *engine)
{
    const struct mesh *mesh = &engine->program->mesh;
    if (engine->rank != 0) return;
    int *stages = ARENA_NEW(engine->arena, int, mesh->rank_count);
    for (int r = 0; r < mesh->rank_count; r++)
        stages[r] = stage_of(mesh, r);
    engine->stragglers = stragglers_new(engine->arena, stages, mesh->rank_count);
}

struct straggler slow_take(struct engine *engine, const int64_t *worked_ns, double step_s)
{
    if (!engine->stragglers) return (struct straggler){.rank = -1};
    // Ranks tell what they worked in the step before, whose number this is from 1 on.
    return stragglers_take(engine->stragglers, engine->step, worked_ns, step_s);
}

void slow_down(const struct engine *engine, int task, double began_s)
{
    const struct run_options *options = engine->request->options;
    bool is_slow = options->slow_ratio > 1 && options->slow_rank == engine->rank;
    if (!is_slow || engine_waits(engine, task)) return;
    double more_s = (clock_s() - began_s) * (options->slow_ratio - 1);
    struct timespec pause = {.tv_sec = (time_t)more_s};
    pause.tv_nsec = (long)((more_s - (double)pause.tv_sec) * 1e9);
    nanosleep(&pause, NULL);
}
