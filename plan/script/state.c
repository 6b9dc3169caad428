#include "plan/layout/shard.h"
#include "plan/passes.h"
#include "plan/script/script.h"
#include "plan/ties.h"

#include <assert.h>
#include <string.h>

// What a stage keeps: the parameters of its blocks, cut into units.

struct filling {
    struct arena *arena;
    struct script *script;
    int parameter_capacity;
    // Of the chunk being read: the bucket of each parameter of the block at each position.
    struct step_end end;
    int **buckets;  // [position][index]
    // Of the block being read.
    int chunk, position, sequence, block;
};

static const struct block_program *block_of(const struct program *program, int index)
{
    return program->blocks[index];
}

static int count_parameters(const struct program *program, int stage)
{
    int count = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int class = program->class_of[stage * program->shape.chunk_count + c];
        const struct program_chunk *chunk = &program->chunks[class];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            count += block_of(program, use->block_program)->parameter_count * use->count;
        }
    }
    return count;
}

static const char *tie_of(const struct program *program, const struct script_parameter *parameter)
{
    return program->blocks[parameter->block]->parameters[parameter->index].tie;
}

static int find_tied(const struct script *script, const char *tie)
{
    for (int i = 0; i < script->parameter_count; i++) {
        const char *other = tie_of(script->program, &script->parameters[i]);
        if (other && strcmp(other, tie) == 0) return i;
    }
    return -1;
}

static void begin_unit(struct filling *filling, const struct parameter *parameter, int bucket)
{
    struct script *script = filling->script;
    struct storage storage = step_storage(script->program, parameter);
    storage.weights_away = block_of(script->program, filling->block)->weights_away;
    script->units[script->unit_count++] = (struct script_unit){
        .kind = parameter->kind,
        .chunk = filling->chunk,
        .position = filling->position,
        .first_parameter = script->parameter_count,
        .storage = storage,
        .reduce_axes =
            parameter->gradient_partial_axes & step_data_axes(script->program, parameter->kind),
        .same_as = -1,
        .tied = ties_at(script->program, script->stage, parameter->tie),
        .bucket = bucket,
    };
}

static void add_parameter(struct filling *filling, int index)
{
    struct script *script = filling->script;
    const struct block_program *block = block_of(script->program, filling->block);
    const struct parameter *parameter = &block->parameters[index];
    struct script_unit *unit = &script->units[script->unit_count - 1];
    int same_as = parameter->tie ? find_tied(script, parameter->tie) : -1;
    if (same_as >= 0) {
        unit->same_as = script->parameters[same_as].unit;
        assert(script->units[unit->same_as].elements == parameter->elements);
        assert(script->units[unit->same_as].reduce_axes == unit->reduce_axes);
    }
    assert(script->parameter_count < filling->parameter_capacity);
    script->parameters[script->parameter_count++] = (struct script_parameter){
        .chunk = filling->chunk,
        .position = filling->position,
        .block = filling->block,
        .index = index,
        .unit = script->unit_count - 1,
        .first = unit->elements,
        .elements = parameter->elements,
        .same_as = same_as,
        .sequence = filling->sequence,
    };
    unit->parameter_count++;
    unit->elements += parameter->elements;
}

// A unit for those from `first` on that are in its bucket.
static void add_group(struct filling *filling, int first, bool *is_done)
{
    const struct block_program *block = block_of(filling->script->program, filling->block);
    const int *buckets = filling->buckets[filling->position];
    begin_unit(filling, &block->parameters[first], buckets[first]);
    for (int i = first; i < block->parameter_count; i++) {
        if (is_done[i] || buckets[i] != buckets[first]) continue;
        add_parameter(filling, i);
        is_done[i] = true;
    }
}

// Units of one kind stand together, in the order in which lowering makes collectives of them.
static void add_kind(struct filling *filling, enum parameter_kind kind)
{
    const struct program *program = filling->script->program;
    const struct block_program *block = block_of(program, filling->block);
    bool is_combined = pass_is_on(&program->parallel, PASS_COMBINE);
    bool *is_done = ARENA_NEW(filling->arena, bool, block->parameter_count);
    for (int i = 0; i < block->parameter_count; i++) {
        const struct parameter *parameter = &block->parameters[i];
        if (parameter->kind != kind || is_done[i]) continue;
        if (is_combined && parameter->tie) continue;
        if (is_combined) {
            add_group(filling, i, is_done);
        } else {
            begin_unit(filling, parameter, filling->buckets[filling->position][i]);
            add_parameter(filling, i);
        }
    }
    for (int i = 0; i < block->parameter_count && is_combined; i++) {
        if (block->parameters[i].kind != kind || !block->parameters[i].tie) continue;
        begin_unit(filling, &block->parameters[i], filling->buckets[filling->position][i]);
        add_parameter(filling, i);
    }
}

static const struct block_use *use_at(const struct program_chunk *chunk, int position)
{
    int u = 0;
    for (; position >= chunk->uses[u].count; u++)
        position -= chunk->uses[u].count;
    return &chunk->uses[u];
}

static bool is_in(const struct filling *filling, const struct block_use *use,
                  const struct parameter *parameter, int group)
{
    const struct program *program = filling->script->program;
    unsigned away = step_away(program, use, parameter);
    return step_group_of(program, &filling->end, parameter, away) == group;
}

// Elements of the group in a block from parameter `from` down to the next of the group, or of all
// of them.
static void cut_group(const struct filling *filling, const struct program_chunk *chunk, int count,
                      int group, int first_bucket)
{
    const struct program *program = filling->script->program;
    const struct step_group *of = &filling->end.groups[group];
    bool by_block = step_cuts_blocks(program, &of->storage);
    struct step_cut cut = {.total = of->elements,
                           .count = by_block ? of->unit_count : of->tensor_count,
                           .bucket_count = of->bucket_count};
    for (int position = count - 1; position >= 0; position--) {
        const struct block_use *use = use_at(chunk, position);
        const struct block_program *block = block_of(program, use->block_program);
        double elements = 0;
        int bucket = -1;
        for (int i = 0; i < block->parameter_count && by_block && !of->tie; i++) {
            if (step_is_elsewhere(program, chunk, &block->parameters[i])) continue;
            if (is_in(filling, use, &block->parameters[i], group))
                elements += (double)block->parameters[i].elements;
        }
        if (elements > 0) bucket = step_cut_next(&cut, elements);
        for (int i = block->parameter_count - 1; i >= 0; i--) {
            const struct parameter *parameter = &block->parameters[i];
            if (step_is_elsewhere(program, chunk, parameter)) continue;
            if (!is_in(filling, use, parameter, group)) continue;
            if (of->tie)
                bucket = 0;
            else if (!by_block)
                bucket = step_cut_next(&cut, (double)parameter->elements);
            filling->buckets[position][i] = first_bucket + bucket;
        }
    }
}

static void add_rooms(struct filling *filling, const struct step_group *group, int first_bucket)
{
    struct script *script = filling->script;
    if (!group->has_rooms) return;
    for (int i = 0; i < group->bucket_count; i++)
        script->buckets[first_bucket + i].room = script->room_count + i % 2;
    for (int i = 0; i < 2; i++)
        script->rooms[script->room_count++].elements = (int64_t)group->room_elements / 2;
}

// The buckets of a chunk, still without units, and which of them each parameter goes into.
static void add_buckets(struct filling *filling, const struct program_chunk *chunk, int count)
{
    struct script *script = filling->script;
    filling->end = step_end_of(script->program, chunk, &script->rules);
    filling->buckets = ARENA_NEW(filling->arena, int *, count);
    for (int position = 0; position < count; position++) {
        const struct block_program *block =
            block_of(script->program, use_at(chunk, position)->block_program);
        filling->buckets[position] = ARENA_NEW(filling->arena, int, block->parameter_count);
    }
    for (int g = 0; g < filling->end.group_count; g++) {
        const struct step_group *group = &filling->end.groups[g];
        cut_group(filling, chunk, count, g, script->bucket_count);
        for (int i = 0; i < group->bucket_count; i++) {
            script->buckets[script->bucket_count + i] = (struct script_bucket){
                .chunk = filling->chunk,
                .kind = group->kind,
                .storage = group->storage,
                .reduce_axes = group->reduce_axes,
                .tied = ties_at(script->program, script->stage, group->tie),
                .room = -1,
            };
        }
        add_rooms(filling, group, script->bucket_count);
        script->bucket_count += group->bucket_count;
    }
}

// What ties on one stage make one is in the bucket of the first of them.
static void fill_buckets(struct arena *arena, struct script *script)
{
    for (int u = 0; u < script->unit_count; u++) {
        struct script_unit *unit = &script->units[u];
        if (unit->same_as >= 0) {
            unit->bucket = -1;
            continue;
        }
        struct script_bucket *bucket = &script->buckets[unit->bucket];
        if (!bucket->units) bucket->units = ARENA_NEW(arena, int, script->unit_count);
        bucket->units[bucket->unit_count++] = u;
        unit->bucket_first = bucket->elements;
        bucket->elements += unit->elements;
    }
}

void script_add_state(struct arena *arena, struct script *script)
{
    const struct program *program = script->program;
    int count = count_parameters(program, script->stage);
    struct filling filling = {.arena = arena, .script = script, .parameter_capacity = count};
    script->parameters = ARENA_NEW(arena, struct script_parameter, count);
    script->units = ARENA_NEW(arena, struct script_unit, count);
    script->buckets = ARENA_NEW(arena, struct script_bucket, count);
    script->rooms = ARENA_NEW(arena, struct script_room, count + 1);
    script->parameter_count = script->unit_count = script->bucket_count = script->room_count = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int at = script->stage * program->shape.chunk_count + c, position = 0;
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        filling.chunk = c;
        add_buckets(&filling, chunk, program->spans[at].count);
        for (int u = 0; u < chunk->use_count; u++) {
            for (int i = 0; i < chunk->uses[u].count; i++, position++) {
                filling.position = position;
                filling.sequence = program->spans[at].first + position;
                filling.block = chunk->uses[u].block_program;
                for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
                    add_kind(&filling, (enum parameter_kind)kind);
            }
        }
    }
    fill_buckets(arena, script);
}

bool script_bucket_is_away(const struct script_bucket *bucket)
{
    return bucket->room >= 0 && bucket->storage.away & AWAY_GRADIENTS;
}

bool script_unit_is_away(const struct script *script, int unit)
{
    int same_as = script->units[unit].same_as, owner = same_as < 0 ? unit : same_as;
    return script->buckets[script->units[owner].bucket].storage.away & AWAY_STATES;
}

bool script_bucket_is_flat(const struct script_bucket *bucket)
{
    return !bucket->storage.gradient_axes && !bucket->storage.weight_axes;
}
