#include "executor/engine/engine.h"

#include <assert.h>

// Memory of the host for what comes and goes beside the device's work: pinned where the back end
// copies from and to such without waiting.

struct host_memory {
    struct host_memory *next;
    void *memory;
};

char *host_memory(struct engine *engine, int64_t bytes)
{
    assert(bytes >= 0);
    const struct backend *backend = engine->backend;
    if (!backend->allocate_host) return ARENA_NEW(engine->arena, char, bytes);
    struct host_memory *made = ARENA_NEW(engine->arena, struct host_memory, 1);
    const char *fault = backend->allocate_host(engine->device, bytes, &made->memory);
    if (!engine_ok(engine, -1, fault)) return NULL;
    made->next = engine->host_memory;
    engine->host_memory = made;
    return made->memory;
}

void host_memory_close(struct engine *engine)
{
    for (struct host_memory *at = engine->host_memory; at; at = at->next)
        engine->backend->release_host(engine->device, at->memory);
}

const char *host_copy(struct engine *engine, enum stream stream, enum copy_kind kind, void *to,
                      const void *from, int64_t bytes)
{
    assert((kind == COPY_TO_HOST || kind == COPY_FROM_HOST) && bytes >= 0 &&
           "pinned or not is said here");
    bool is_pinned = engine->backend->allocate_host != NULL;
    if (is_pinned) kind = kind == COPY_TO_HOST ? COPY_TO_PINNED : COPY_FROM_PINNED;
    return engine->backend->copy(engine->device, stream, kind, to, from, bytes);
}
