#include "executor/engine/engine.h"

#include <assert.h>
#include <string.h>

// Which way attention went on the ranks. All have one back end, so that all come here.

enum { WORDS = (int)(sizeof(struct attention_path) / sizeof(int64_t)) };
static_assert(sizeof(struct attention_path) % sizeof(int64_t) == 0, "it is sent as numbers");

static void add(struct run_result *result, const struct attention_path *way)
{
    for (int i = 0; i < result->attention_count; i++) {
        struct run_attention *held = &result->attentions[i];
        if (memcmp(&held->way, way, sizeof *way) != 0) continue;
        held->rank_count++;
        return;
    }
    result->attentions[result->attention_count++] = (struct run_attention){*way, 1};
}

bool attentions_gather(struct engine *engine, struct run_result *result)
{
    int ranks = engine->program->mesh.rank_count;
    int64_t count = 0, most = 0;
    if (!engine->backend->attention_paths) return true;
    struct attention_path *mine =
        ARENA_NEW(engine->arena, struct attention_path, ATTENTION_PATH_MAX);
    count = engine->backend->attention_paths(engine->device, mine);
    assert(count >= 0 && count <= ATTENTION_PATH_MAX);
    int64_t *counts = ARENA_NEW(engine->arena, int64_t, ranks);
    const char *fault = engine->transport->host_gather(engine->world, &count, counts, 1);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++)
        if (counts[r] > most) most = counts[r];
    if (most == 0) return true;
    struct attention_path *all = ARENA_NEW(engine->arena, struct attention_path, most * ranks);
    fault = engine->transport->host_gather(engine->world, (const int64_t *)(const void *)mine,
                                           (int64_t *)(void *)all, (int)most * WORDS);
    if (!engine_ok(engine, -1, fault)) return false;
    result->attentions = ARENA_NEW(engine->arena, struct run_attention, most * ranks);
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < counts[r]; i++)
            add(result, &all[r * most + i]);
    }
    return true;
}
