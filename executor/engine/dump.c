#include "core/file.h"
#include "executor/engine/away.h"
#include "executor/engine/host_state.h"
#include "executor/number.h"

#include <assert.h>
#include <string.h>

// Weights and gradients as this rank holds them after the last step, for tests: one file a rank,
// PATH.RANK. A line for each part: what, name, sequence, the box of the whole that the rank's
// layout holds (first:count/whole by dim), the elements of that box that are here (first:count);
// then their values as doubles of this machine.

struct dumping {
    struct engine *engine;
    struct file_writer *file;
};

static void put_text(struct dumping *dumping, const char *text)
{
    file_put(dumping->file, text, strlen(text));
}

// Weights that are on the host or below.
static bool read_away(struct engine *engine, struct state_part part, double *values)
{
    enum number number = number_of(engine->backend, ELEMENT_COMPUTE);
    int64_t at = part.at * engine->compute_bytes, bytes = part.count * engine->compute_bytes;
    char *here =
        engine->away ? ARENA_NEW(engine->scratch, char, bytes) : engine->state.away_weights + at;
    if (engine->away && !away_get(engine, here, at, bytes)) return false;
    for (int64_t i = 0; i < part.count; i++)
        values[i] = number_get(number, here, i);
    return true;
}

static bool put_part(struct dumping *dumping, const char *what, int parameter, enum element element,
                     const char *array, struct state_part part)
{
    struct engine *engine = dumping->engine;
    assert(part.count >= 0 && part.first >= 0 && engine->scale.of_step > 0);
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
    double *values = ARENA_NEW(engine->scratch, double, part.count);
    const char *from = array ? array + part.at * engine_element_bytes(engine, element) : NULL;
    bool done;
    if (element == ELEMENT_COMPUTE && state_unit_leaves(engine, of->unit))
        done = read_away(engine, part, values);
    else if (!array || (array == engine->state.masters && host_state_is_of(engine, parameter)))
        done = host_state_get(engine, parameter, values);
    else if (array == engine->state.gradients && host_state_has(engine, parameter))
        host_state_gradients(engine, parameter, values), done = true;
    else
        done = numbers_read(engine, -1, element, from, part.count, values);
    if (!done) return false;
    for (int64_t i = 0; i < part.count && array == engine->state.gradients; i++)
        values[i] /= engine->scale.of_step;
    file_put(dumping->file, (const char *)values, (size_t)part.count * sizeof *values);
    put_text(dumping, "\n");
    return true;
}

// Weights as the optimizer has them, and rounded where that is another thing.
static bool put_parameter(struct dumping *dumping, int p)
{
    struct engine *engine = dumping->engine;
    const struct state *state = &engine->state;
    struct state_part kept = state_part_of(engine, p, STATE_WEIGHTS);
    struct state_part own = state_part_of(engine, p, STATE_MOMENTS);
    bool has_masters = engine->compute_bytes < engine->real_bytes;
    bool done = has_masters
                    ? put_part(dumping, "weight", p, ELEMENT_FP32, state->masters, own) &&
                          put_part(dumping, "rounded", p, ELEMENT_COMPUTE, state->weights, kept)
                    : put_part(dumping, "weight", p, ELEMENT_COMPUTE, state->weights, kept);
    const struct script *script = engine->script;
    bool has_room = script->buckets[script->units[script->parameters[p].unit].bucket].room >= 0;
    bool is_gone = has_room && !host_state_has(engine, p);
    return done && (is_gone || put_part(dumping, "gradient", p, ELEMENT_FP32, state->gradients,
                                        update_part_of(engine, p)));
}

static bool put_all(struct dumping *dumping)
{
    struct engine *engine = dumping->engine;
    for (int p = 0; p < engine->script->parameter_count; p++) {
        if (engine->script->parameters[p].same_as >= 0) continue;
        struct arena_mark mark = arena_mark(engine->scratch);
        bool done = put_parameter(dumping, p);
        arena_reset(engine->scratch, mark);
        if (!done) return false;
    }
    return true;
}

bool dump_write(struct engine *engine)
{
    assert(engine->request->options->dump_path && "asked for alone");
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
