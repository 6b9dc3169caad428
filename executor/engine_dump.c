#include "core/file.h"
#include "executor/engine.h"

#include <stdio.h>
#include <string.h>

// Weights and gradients as this rank holds them after the last step, for tests: one file a rank,
// PATH.RANK. A line for each part: what, name, sequence, the box of the whole that the rank's
// layout holds (first:count/whole by dim), the elements of that box that are here (first:count);
// then a line with their values.

struct dumping {
    struct engine *engine;
    struct file_writer *file;
};

static void put_text(struct dumping *dumping, const char *text)
{
    file_put(dumping->file, text, strlen(text));
}

static void put_values(struct dumping *dumping, const char *reals, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char text[40];
        double value = dumping->engine->real_bytes == 8
                           ? ((const double *)(const void *)reals)[i]
                           : (double)((const float *)(const void *)reals)[i];
        snprintf(text, sizeof text, "%a ", value);
        put_text(dumping, text);
    }
    put_text(dumping, "\n");
}

static bool put_part(struct dumping *dumping, const char *what, int parameter, const char *array,
                     struct state_part part)
{
    struct engine *engine = dumping->engine;
    if (part.count == 0) return true;
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct parameter *known = state_parameter(engine, parameter);
    const struct tensor *tensor =
        &engine->program->blocks[of->block]->block->tensors[known->tensor];
    struct held held = state_held(engine, parameter, engine->rank);
    char *line =
        arena_print(engine->scratch, "%s %s %d", what, known->tie ? known->tie : tensor->name,
                    known->tie ? -1 : of->sequence);
    for (int i = 0; i < held.rank; i++)
        line = arena_print(engine->scratch, "%s %lld:%lld/%lld", line, (long long)held.first[i],
                           (long long)held.count[i], (long long)tensor->extents[i].size);
    put_text(dumping, arena_print(engine->scratch, "%s | %lld:%lld\n", line, (long long)part.first,
                                  (long long)part.count));
    char *host = arena_alloc(engine->scratch, (size_t)part.count, (size_t)engine->real_bytes);
    const char *fault = engine->backend->copy(engine->device, STREAM_COMPUTE, COPY_TO_HOST, host,
                                              array + part.at * engine->real_bytes,
                                              part.count * engine->real_bytes);
    if (!engine_ok(engine, -1, fault)) return false;
    if (!engine_ok(engine, -1, engine->backend->synchronize(engine->device, STREAM_COMPUTE)))
        return false;
    put_values(dumping, host, part.count);
    return true;
}

static bool put_all(struct dumping *dumping)
{
    struct engine *engine = dumping->engine;
    for (int p = 0; p < engine->script->parameter_count; p++) {
        if (engine->script->parameters[p].same_as >= 0) continue;
        struct arena_mark mark = arena_mark(engine->scratch);
        bool done =
            put_part(dumping, "weight", p, engine->state.weights,
                     state_part_of(engine, p, STATE_WEIGHTS)) &&
            put_part(dumping, "gradient", p, engine->state.gradients, update_part_of(engine, p));
        arena_reset(engine->scratch, mark);
        if (!done) return false;
    }
    return true;
}

bool dump_write(struct engine *engine)
{
    struct file_writer file;
    const char *path =
        arena_print(engine->scratch, "%s.%d", engine->request->options->dump_path, engine->rank);
    if (!file_open(&file, path, engine->err)) return false;
    struct dumping dumping = {engine, &file};
    if (!put_all(&dumping)) {
        file_abort(&file);
        return false;
    }
    return file_commit(&file, engine->err);
}
