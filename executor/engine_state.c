#include "executor/engine.h"

#include <assert.h>

// What a rank keeps for good: of each unit the part that its storage layouts give it.

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

int state_owner(const struct engine *engine, int unit)
{
    int same_as = engine->script->units[unit].same_as;
    return same_as < 0 ? unit : same_as;
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

struct part state_unit_part(struct engine *engine, int unit, enum state_array array)
{
    const struct script_unit *of = &engine->script->units[unit];
    unsigned axes = axes_of(of, array);
    if (!axes) return (struct part){0, of->elements};
    const struct member_group *group = engine_group(engine, axes, "state");
    if (!group) return (struct part){0, 0};
    return part_of(of->elements, group->count, group->index);
}

int64_t *state_counts(struct engine *engine, int unit, const struct member_group *group)
{
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, group->count);
    for (int j = 0; j < group->count; j++)
        counts[j] = part_of(engine->script->units[unit].elements, group->count, j).count;
    return counts;
}

// What ties on one stage make one has its place with the first of them.
static bool place_units(struct engine *engine)
{
    struct state *state = &engine->state;
    int units = engine->script->unit_count;
    state->weight_at = ARENA_NEW(engine->arena, int64_t, units);
    state->gradient_at = ARENA_NEW(engine->arena, int64_t, units);
    state->moment_at = ARENA_NEW(engine->arena, int64_t, units);
    for (int u = 0; u < units; u++) {
        int owner = state_owner(engine, u);
        state->weight_at[u] = owner < u ? state->weight_at[owner] : state->weight_count;
        state->gradient_at[u] = owner < u ? state->gradient_at[owner] : state->gradient_count;
        state->moment_at[u] = owner < u ? state->moment_at[owner] : state->moment_count;
        if (owner != u) continue;
        state->weight_count += state_unit_part(engine, u, STATE_WEIGHTS).count;
        state->gradient_count += state_unit_part(engine, u, STATE_GRADIENTS).count;
        state->moment_count += state_unit_part(engine, u, STATE_MOMENTS).count;
        if (engine->err->kind) return false;
    }
    return true;
}

static bool reserve(struct engine *engine, enum element element, int64_t count, char **memory)
{
    int64_t bytes = count * engine_element_bytes(engine, element);
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
    if (!place_units(engine)) return false;
    bool has_masters = engine->compute_bytes < engine->real_bytes;
    struct {
        bool is_there;
        char **memory;
    } kept[] = {{has_masters, &state->masters},
                {moments > 0, &state->first_moments},
                {moments > 1, &state->second_moments},
                {has_direction, &state->direction}};
    if (!reserve(engine, ELEMENT_COMPUTE, state->weight_count, &state->weights)) return false;
    if (!reserve(engine, ELEMENT_FP32, state->gradient_count, &state->gradients)) return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i].is_there && !reserve(engine, ELEMENT_FP32, state->moment_count, kept[i].memory))
            return false;
    }
    return true;
}

void state_close(struct engine *engine)
{
    char *arrays[] = {engine->state.weights,        engine->state.gradients,
                      engine->state.masters,        engine->state.first_moments,
                      engine->state.second_moments, engine->state.direction};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (arrays[i]) engine->backend->release(engine->device, arrays[i]);
    }
}

struct state_part state_part_of(struct engine *engine, int parameter, enum state_array array)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct state *state = &engine->state;
    struct part here = state_unit_part(engine, of->unit, array);
    int64_t base = array == STATE_WEIGHTS     ? state->weight_at[of->unit]
                   : array == STATE_GRADIENTS ? state->gradient_at[of->unit]
                                              : state->moment_at[of->unit];
    int64_t end = of->first + of->elements, here_end = here.first + here.count;
    int64_t first = of->first > here.first ? of->first : here.first;
    int64_t last = end < here_end ? end : here_end;
    if (last <= first) return (struct state_part){base, 0, 0};
    return (struct state_part){base + first - here.first, first - of->first, last - first};
}

struct held state_held(const struct engine *engine, int parameter, int rank)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct block_program *block = engine->program->blocks[of->block];
    const struct parameter *known = &block->parameters[of->index];
    return held_of(engine->program, &block->block->tensors[known->tensor], &known->layout, rank);
}
