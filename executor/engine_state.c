#include "executor/engine.h"

#include <assert.h>

// What a rank keeps for good: of each unit, segment by segment, the part that its storage layouts
// give it.

struct part part_of(int64_t elements, int count, int index)
{
    int64_t each = (elements + count - 1) / count;
    int64_t first = each * index < elements ? each * index : elements;
    return (struct part){first, each < elements - first ? each : elements - first};
}

const struct parameter *state_parameter(const struct engine *engine, int parameter)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    return &engine->program->blocks[of->block]->parameters[of->index];
}

static bool is_tied(const struct engine *engine, int parameter)
{
    return state_parameter(engine, parameter)->tie != NULL;
}

// Runs of parameters of a unit; a tied one stands alone.
static void find_segments(struct engine *engine)
{
    const struct script *script = engine->script;
    struct state *state = &engine->state;
    state->segments = ARENA_NEW(engine->arena, struct segment, script->parameter_count + 1);
    state->first_segment = ARENA_NEW(engine->arena, int, script->unit_count + 1);
    state->segment_of = ARENA_NEW(engine->arena, int, script->parameter_count + 1);
    for (int u = 0; u < script->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        state->first_segment[u] = state->segment_count;
        for (int i = 0; i < unit->parameter_count; i++) {
            int p = unit->first_parameter + i;
            bool begins = i == 0 || is_tied(engine, p) || is_tied(engine, p - 1);
            if (begins) {
                state->segments[state->segment_count++] = (struct segment){
                    .unit = u, .first = script->parameters[p].first, .first_parameter = p};
            }
            struct segment *segment = &state->segments[state->segment_count - 1];
            segment->elements += script->parameters[p].elements;
            segment->parameter_count++;
            state->segment_of[p] = state->segment_count - 1;
        }
    }
    state->first_segment[script->unit_count] = state->segment_count;
}

static unsigned axes_of(const struct script_unit *unit, enum state_array array)
{
    switch (array) {
    case STATE_WEIGHTS:
        return unit->storage.weight_axes;
    case STATE_GRADIENTS:
        return unit->storage.gradient_axes;
    case STATE_MOMENTS:
        break;
    }
    return unit->storage.optimizer_axes;
}

struct part state_segment_part(struct engine *engine, const struct segment *segment,
                               enum state_array array)
{
    unsigned axes = axes_of(&engine->script->units[segment->unit], array);
    if (!axes) return (struct part){0, segment->elements};
    const struct member_group *group = engine_group(engine, axes, "state");
    if (!group) return (struct part){0, 0};
    return part_of(segment->elements, group->count, group->index);
}

static bool place_segments(struct engine *engine)
{
    struct state *state = &engine->state;
    for (int s = 0; s < state->segment_count; s++) {
        struct segment *segment = &state->segments[s];
        // What ties on one stage make one has its place with the first of them.
        if (engine->script->parameters[segment->first_parameter].same_as >= 0) continue;
        segment->weight_at = state->weight_count;
        segment->gradient_at = state->gradient_count;
        segment->moment_at = state->moment_count;
        state->weight_count += state_segment_part(engine, segment, STATE_WEIGHTS).count;
        state->gradient_count += state_segment_part(engine, segment, STATE_GRADIENTS).count;
        state->moment_count += state_segment_part(engine, segment, STATE_MOMENTS).count;
        if (engine->err->kind) return false;
    }
    return true;
}

static bool reserve(struct engine *engine, int64_t reals, char **memory)
{
    int64_t bytes = reals * engine->real_bytes;
    void *got = NULL;
    if (!engine_ok(engine, -1, engine->backend->allocate(engine->device, bytes + 1, &got)))
        return false;
    *memory = got;
    const char *fault = engine->backend->fill(engine->device, STREAM_COMPUTE, got, 0, bytes);
    return engine_ok(engine, -1, fault);
}

bool state_open(struct engine *engine)
{
    struct state *state = &engine->state;
    enum optimizer optimizer = engine->program->workload.optimizer;
    int moments = optimizer_moment_count(optimizer);
    bool has_direction = optimizer == OPTIMIZER_LAMB || optimizer == OPTIMIZER_LARS;
    find_segments(engine);
    if (!place_segments(engine)) return false;
    return reserve(engine, state->weight_count, &state->weights) &&
           reserve(engine, state->gradient_count, &state->gradients) &&
           (moments < 1 || reserve(engine, state->moment_count, &state->first_moments)) &&
           (moments < 2 || reserve(engine, state->moment_count, &state->second_moments)) &&
           (!has_direction || reserve(engine, state->moment_count, &state->direction));
}

void state_close(struct engine *engine)
{
    char *arrays[] = {engine->state.weights, engine->state.gradients, engine->state.first_moments,
                      engine->state.second_moments, engine->state.direction};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (arrays[i]) engine->backend->release(engine->device, arrays[i]);
    }
}

static const struct script_parameter *owner_of(const struct engine *engine, int *parameter)
{
    const struct script_parameter *of = &engine->script->parameters[*parameter];
    if (of->same_as < 0) return of;
    *parameter = of->same_as;
    return &engine->script->parameters[of->same_as];
}

struct state_part state_part_of(struct engine *engine, int parameter, enum state_array array)
{
    const struct script_parameter *of = owner_of(engine, &parameter);
    const struct segment *segment = &engine->state.segments[engine->state.segment_of[parameter]];
    struct part here = state_segment_part(engine, segment, array);
    int64_t base = array == STATE_WEIGHTS     ? segment->weight_at
                   : array == STATE_GRADIENTS ? segment->gradient_at
                                              : segment->moment_at;
    int64_t from = of->first - segment->first, end = from + of->elements;
    int64_t first = from > here.first ? from : here.first;
    int64_t here_end = here.first + here.count;
    int64_t last = end < here_end ? end : here_end;
    if (last <= first) return (struct state_part){base, 0, 0};
    return (struct state_part){base + first - here.first, first - from, last - first};
}

struct held state_held(const struct engine *engine, int parameter, int rank)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct block_program *block = engine->program->blocks[of->block];
    const struct parameter *known = &block->parameters[of->index];
    return held_of(engine->program, &block->block->tensors[known->tensor], &known->layout, rank);
}
