#include "executor/engine/engine.h"

#include "core/progress.h"
#include "executor/nvme.h"

#include <assert.h>
#include <math.h>

// For how long a rank waits for what is moved to its host and drive and back, and how fast its
// drive is.

void moving_begin(struct engine *engine)
{
    engine->moving_began_s = engine->backend->is_asynchronous ? 0 : clock_s();
}

void moving_end(struct engine *engine)
{
    engine->moved_s += engine->backend->is_asynchronous ? 0 : clock_s() - engine->moving_began_s;
}

// Of all its files together.
static int64_t drive_bytes_per_s(const struct engine *engine)
{
    struct nvme_moved sum = {0};
    for (int i = 0; i < engine->drive_count; i++) {
        struct nvme_moved one = nvme_moved(engine->drives[i]);
        sum.bytes += one.bytes;
        sum.s += one.s;
    }
    return sum.s > 0 ? (int64_t)(sum.bytes / sum.s) : 0;
}

bool moving_finish(struct engine *engine, int steps, struct run_result *result)
{
    assert(steps >= 0 && engine->moved_sum_s >= 0);
    enum { MOVED, RATE, COUNT };
    int ranks = engine->program->mesh.rank_count;
    double mean_s = steps > 0 ? engine->moved_sum_s / steps : 0;
    int64_t mine[COUNT] = {(int64_t)(mean_s * 1e9), drive_bytes_per_s(engine)};
    int64_t *all = ARENA_NEW(engine->arena, int64_t, COUNT * ranks);
    const char *fault = engine->transport->host_gather(engine->world, mine, all, COUNT);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++) {
        const int64_t *of = all + (int64_t)r * COUNT;
        double rate = (double)of[RATE], least = result->nvme_bytes_per_s;
        result->moved_s = fmax(result->moved_s, (double)of[MOVED] * 1e-9);
        if (rate > 0 && (least == 0 || rate < least)) result->nvme_bytes_per_s = rate;
    }
    return true;
}
