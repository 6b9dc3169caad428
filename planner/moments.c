#include "planner/moments.h"

#include "cost_models/memory.h"

#include <string.h>

// Compared byte by byte.
struct moments_key {
    int schedule, stage_count, chunk_count, micro_batch_count, in_flight;
};

struct moments_entry {
    struct moments_key key;
    struct stage_in_flight *stages;  // without moments where nobody has asked yet
};

static struct stage_in_flight *stages_of(struct moments *moments, const struct program *program)
{
    const struct schedule_shape *shape = &program->shape;
    struct moments_key key = {(int)program->parallel.schedule, shape->stage_count,
                              shape->chunk_count, shape->micro_batch_count, shape->in_flight};
    moments->index.key_bytes = sizeof key;
    const struct moments_entry *found = index_find(&moments->index, &key);
    if (found) return found->stages;
    struct moments_entry *entry = ARENA_NEW(moments->arena, struct moments_entry, 1);
    entry->key = key;
    entry->stages = ARENA_NEW(moments->arena, struct stage_in_flight, shape->stage_count);
    index_put(moments->arena, &moments->index, entry);
    return entry->stages;
}

const struct stage_in_flight *moments_get(struct moments *moments, const struct program *program,
                                          int stage)
{
    struct stage_in_flight *stages = stages_of(moments, program);
    if (stages[stage].moments) return stages;
    struct arena spare = {0};
    int chunks = program->shape.chunk_count;
    struct schedule_in_flight *found =
        ARENA_NEW(&spare, struct schedule_in_flight, SCHEDULE_IN_FLIGHT_MAX * chunks);
    int count = memory_moments(program, stage, found);
    struct schedule_in_flight *kept =
        ARENA_NEW(moments->arena, struct schedule_in_flight, count * chunks);
    memcpy(kept, found, (size_t)(count * chunks) * sizeof *kept);
    stages[stage] = (struct stage_in_flight){kept, count};
    arena_free(&spare);
    return stages;
}
