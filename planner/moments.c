#include "planner/moments.h"

#include "cost_models/memory.h"

#include <assert.h>
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

static bool holds_no_more(const struct schedule_in_flight *a, const struct schedule_in_flight *b,
                          int chunks)
{
    for (int chunk = 0; chunk < chunks; chunk++) {
        if (a[chunk].alive > b[chunk].alive || a[chunk].waiting > b[chunk].waiting) return false;
    }
    return true;
}

// Whatever a micro-batch weighs, a moment that holds no more of any chunk than another is no
// heavier: it need not be asked. Of equal ones the first stays.
static int drop_lighter(struct schedule_in_flight *moments, int count, int chunks)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        const struct schedule_in_flight *at = &moments[i * chunks];
        bool is_lighter = false;
        for (int k = 0; k < kept && !is_lighter; k++)
            is_lighter = holds_no_more(at, &moments[k * chunks], chunks);
        for (int k = i + 1; k < count && !is_lighter; k++) {
            const struct schedule_in_flight *other = &moments[k * chunks];
            is_lighter = holds_no_more(at, other, chunks) && !holds_no_more(other, at, chunks);
        }
        if (is_lighter) continue;
        memmove(&moments[kept++ * chunks], at, (size_t)chunks * sizeof *at);
    }
    return kept;
}

const struct stage_in_flight *moments_get(struct moments *moments, const struct program *program,
                                          int stage)
{
    assert(stage >= 0 && stage < program->shape.stage_count);
    struct stage_in_flight *stages = stages_of(moments, program);
    if (stages[stage].moments) return stages;
    struct arena spare = {0};
    int chunks = program->shape.chunk_count;
    struct schedule_in_flight *found =
        ARENA_NEW(&spare, struct schedule_in_flight, SCHEDULE_IN_FLIGHT_MAX * chunks);
    int count = drop_lighter(found, memory_moments(program, stage, found), chunks);
    assert(count >= 1 && count <= SCHEDULE_IN_FLIGHT_MAX);
    struct schedule_in_flight *kept =
        ARENA_NEW(moments->arena, struct schedule_in_flight, count * chunks);
    memcpy(kept, found, (size_t)(count * chunks) * sizeof *kept);
    stages[stage] = (struct stage_in_flight){kept, count};
    arena_free(&spare);
    return stages;
}
