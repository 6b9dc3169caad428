#include "executor/engine/engine.h"
#include "executor/number.h"

#include <assert.h>

// Numbers of the device as the host sees them, however wide they are there.

bool numbers_read(struct engine *engine, int task, enum element element, const void *from,
                  int64_t count, double *to)
{
    assert(count >= 0);
    enum number number = number_of(engine->backend, element);
    enum stream stream = task < 0 ? STREAM_COMPUTE : engine->script->tasks[task].stream;
    struct arena scratch = {0};
    char *host = ARENA_NEW(&scratch, char, count *number_bytes(number) + 1);
    const char *fault = engine->backend->copy(engine->device, stream, COPY_TO_HOST, host, from,
                                              count * number_bytes(number));
    if (!fault) fault = engine->backend->synchronize(engine->device, stream);
    for (int64_t i = 0; i < count && !fault; i++)
        to[i] = number_get(number, host, i);
    arena_free(&scratch);
    return engine_ok(engine, task, fault);
}

bool numbers_write(struct engine *engine, int task, enum element element, void *to, int64_t count,
                   const double *from)
{
    assert(count >= 0);
    enum number number = number_of(engine->backend, element);
    enum stream stream = task < 0 ? STREAM_COMPUTE : engine->script->tasks[task].stream;
    struct arena scratch = {0};
    char *host = ARENA_NEW(&scratch, char, count *number_bytes(number) + 1);
    for (int64_t i = 0; i < count; i++)
        number_put(number, host, i, from[i]);
    const char *fault = engine->backend->copy(engine->device, stream, COPY_FROM_HOST, to, host,
                                              count * number_bytes(number));
    // The host's copy goes now.
    if (!fault) fault = engine->backend->synchronize(engine->device, stream);
    arena_free(&scratch);
    return engine_ok(engine, task, fault);
}
