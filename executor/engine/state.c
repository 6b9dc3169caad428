#include "executor/engine/away.h"
#include "executor/engine/host_state.h"
#include "plan/layout/shard.h"

#include <assert.h>
#include <string.h>

// What a rank keeps for good: of each unit the part that its storage layouts give it.

struct part state_shard(const struct engine *engine, unsigned axes, int64_t elements)
{
    struct slice slice = shard_slice(&engine->program->mesh, axes, elements, engine->rank);
    assert(slice.first >= 0 && slice.count >= 0 && slice.first + slice.count <= elements);
    return (struct part){slice.first, slice.count};
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

bool state_unit_leaves(const struct engine *engine, int unit)
{
    return engine->script->units[state_owner(engine, unit)].storage.weights_away;
}

char *state_unit_weights(const struct engine *engine, int unit)
{
    const struct state *state = &engine->state;
    char *all = state_unit_leaves(engine, unit) ? state->away_weights : state->weights;
    assert(all && "weights on NVMe have no memory");
    return all + state->weight_at[unit] * engine->compute_bytes;
}

// Moments go with what the optimizer updates.
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

// What two parts have in common, from the first one's beginning on.
static struct part common(struct part a, struct part b)
{
    int64_t first = a.first > b.first ? a.first : b.first;
    int64_t a_end = a.first + a.count, b_end = b.first + b.count;
    int64_t end = a_end < b_end ? a_end : b_end;
    return (struct part){end > first ? first - a.first : 0, end > first ? end - first : 0};
}

// Moments of a bucket that is flat are split as a whole.
struct part state_unit_part(struct engine *engine, int unit, enum state_array array)
{
    const struct script *script = engine->script;
    const struct script_unit *of = &script->units[unit];
    unsigned axes = axes_of(of, array);
    if (!axes) return (struct part){0, of->elements};
    if (!engine_shard_group(engine, axes, "state")) return (struct part){0, 0};
    const struct script_unit *stored = &script->units[state_owner(engine, unit)];
    const struct script_bucket *bucket = &script->buckets[stored->bucket];
    if (!script_bucket_is_flat(bucket)) return state_shard(engine, axes, of->elements);
    struct part own = {stored->bucket_first, stored->elements};
    return common(own, state_shard(engine, axes, bucket->elements));
}

int64_t *state_counts(struct engine *engine, int64_t elements, const struct member_group *group)
{
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, group->count);
    for (int j = 0; j < group->count; j++)
        counts[j] =
            shard_slice(&engine->program->mesh, group->axes, elements, group->ranks[j]).count;
    return counts;
}

static void place_unit(struct engine *engine, int unit, int64_t *gradient_at)
{
    struct state *state = &engine->state;
    int64_t *weights =
        state_unit_leaves(engine, unit) ? &state->away_weight_count : &state->weight_count;
    state->weight_at[unit] = *weights;
    int64_t *moments =
        script_unit_is_away(engine->script, unit) ? &state->away_count : &state->moment_count;
    state->moment_at[unit] = *moments;
    state->gradient_at[unit] = *gradient_at;
    *weights += state_unit_part(engine, unit, STATE_WEIGHTS).count;
    *moments += state_unit_part(engine, unit, STATE_MOMENTS).count;
    *gradient_at += state_unit_part(engine, unit, STATE_GRADIENTS).count;
}

// Bucket by bucket, the last one first; gradients of some pass through rooms. What ties on one
// stage make one has its place with the first of them.
static bool place_units(struct engine *engine)
{
    struct state *state = &engine->state;
    const struct script *script = engine->script;
    int units = script->unit_count;
    state->weight_at = ARENA_NEW(engine->arena, int64_t, units + 1);
    state->gradient_at = ARENA_NEW(engine->arena, int64_t, units + 1);
    state->moment_at = ARENA_NEW(engine->arena, int64_t, units + 1);
    int64_t *room_at = ARENA_NEW(engine->arena, int64_t, script->room_count + 1);
    for (int b = 0; b < script->bucket_count; b++) {
        if (script->buckets[b].room >= 0) room_at[script->buckets[b].room] = -1;
    }
    for (int r = 0; r < script->room_count; r++) {
        bool is_used = room_at[r] < 0;
        room_at[r] = state->gradient_count;
        if (is_used) state->gradient_count += script->rooms[r].elements;
    }
    // A step makes gradients from the last parameter to the first, and its buckets go that way:
    // from the last bucket on neighbours are neighbours in the layer, across buckets too.
    for (int b = script->bucket_count - 1; b >= 0; b--) {
        const struct script_bucket *bucket = &script->buckets[b];
        int64_t in_room = bucket->room >= 0 ? room_at[bucket->room] : 0;
        for (int i = 0; i < bucket->unit_count; i++)
            place_unit(engine, bucket->units[i],
                       bucket->room >= 0 ? &in_room : &state->gradient_count);
        if (engine->err->kind) return false;
    }
    for (int u = 0; u < units; u++) {
        int owner = state_owner(engine, u);
        assert(state_owner(engine, owner) == owner && "what is shared is stored once");
        state->weight_at[u] = state->weight_at[owner];
        state->gradient_at[u] = state->gradient_at[owner];
        state->moment_at[u] = state->moment_at[owner];
    }
    return true;
}

// One byte more than is asked for: a rank of an uneven split may hold nothing.
static bool reserve(struct engine *engine, enum element element, int64_t count, char **memory)
{
    int64_t bytes = count * engine_element_bytes(engine, element);
    void *got = NULL;
    engine->beside_bytes++;
    if (!engine_ok(engine, -1, engine->backend->allocate(engine->device, bytes + 1, &got)))
        return false;
    *memory = got;
    const char *fault = engine->backend->fill(engine->device, STREAM_COMPUTE, got, 0, bytes);
    return engine_ok(engine, -1, fault);
}

// On the host they stand as kernels read them, beside the states that they are made of.
static bool reserve_weights(struct engine *engine)
{
    struct state *state = &engine->state;
    int64_t bytes = state->away_weight_count * engine->compute_bytes;
    if (!reserve(engine, ELEMENT_COMPUTE, state->weight_count, &state->weights)) return false;
    if (bytes == 0) return true;
    if (engine->program->parallel.offload.parameters == TIER_NVME) return away_open(engine);
    state->away_weights = host_memory(engine, bytes + 1);
    if (!state->away_weights) return false;
    memset(state->away_weights, 0, (size_t)bytes + 1);
    engine->host_bytes += bytes;
    return true;
}

bool state_open(struct engine *engine)
{
    struct state *state = &engine->state;
    enum optimizer optimizer = engine->program->workload.optimizer;
    int moments = optimizer_moment_count(optimizer);
    if (!place_units(engine)) return false;
    state->trust = ARENA_NEW(engine->arena, double, engine->script->parameter_count + 1);
    bool is_here = host_state_leaves(engine, false), is_away = host_state_leaves(engine, true);
    bool has_masters = is_here && engine->compute_bytes < engine->real_bytes;
    struct {
        bool is_there;
        char **memory;
    } kept[] = {{has_masters, &state->masters},
                {is_here && moments > 0, &state->first_moments},
                {is_here && moments > 1, &state->second_moments}};
    if (!reserve_weights(engine)) return false;
    if (!reserve(engine, ELEMENT_FP32, state->gradient_count, &state->gradients)) return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i].is_there && !reserve(engine, ELEMENT_FP32, state->moment_count, kept[i].memory))
            return false;
    }
    return !is_away || host_state_open(engine);
}

void state_close(struct engine *engine)
{
    char *arrays[] = {engine->state.weights, engine->state.gradients, engine->state.masters,
                      engine->state.first_moments, engine->state.second_moments};
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
