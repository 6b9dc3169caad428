#include "plan/passes.h"
#include "plan/script.h"

#include <assert.h>
#include <string.h>

// What a stage keeps: the parameters of its blocks, cut into units.

struct filling {
    struct arena *arena;
    struct script *script;
    int parameter_capacity;
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

// Axes that may reduce a gradient by units: data parallelism of either kind.
static unsigned data_axes(const struct program *program, enum parameter_kind kind)
{
    const struct mesh *mesh = &program->mesh;
    return mesh_axes_of(mesh, AXIS_DP) | mesh_axes_of(mesh, AXIS_CP) |
           mesh_shard_axes(mesh, &program->parallel, kind);
}

// Axes that storage would be split over and that split the parameter itself: ranks along them have
// no copies to share.
static unsigned own_axes(const struct program *program, const struct parameter *parameter)
{
    unsigned axes = mesh_shard_axes(&program->mesh, &program->parallel, parameter->kind), own = 0;
    for (int i = 0; i < program->mesh.axis_count; i++) {
        if (axes >> i & 1 && parameter->layout.of[i] > 0) own |= 1u << i;
    }
    return own;
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

static bool stage_has_tie(const struct program *program, int stage, const char *tie)
{
    const struct graph *graph = program->graph;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        const struct chunk_span *span = &program->spans[stage * program->shape.chunk_count + c];
        for (int i = span->first; i < span->first + span->count; i++) {
            const struct block *block = &graph->blocks[graph->sequence[i]];
            for (int t = 0; t < block->tensor_count; t++) {
                const char *other = block->tensors[t].tie;
                if (other && strcmp(other, tie) == 0) return true;
            }
        }
    }
    return false;
}

static int tied_stage(const struct script *script, const char *tie)
{
    const struct tied_reduce *tied = &script->program->tied;
    bool is_first = script->stage == tied->first_stage, is_last = script->stage == tied->last_stage;
    if (!tie || tied->elements == 0 || is_first == is_last) return -1;
    int other = is_first ? tied->last_stage : tied->first_stage;
    return stage_has_tie(script->program, other, tie) ? other : -1;
}

static struct storage storage_of(const struct program *program, const struct parameter *parameter)
{
    struct storage storage = program->storage[parameter->kind];
    unsigned kept = ~own_axes(program, parameter);
    storage.weight_axes &= kept;
    storage.gradient_axes &= kept;
    storage.optimizer_axes &= kept;
    return storage;
}

static void begin_unit(struct filling *filling, const struct parameter *parameter)
{
    struct script *script = filling->script;
    script->units[script->unit_count++] = (struct script_unit){
        .kind = parameter->kind,
        .chunk = filling->chunk,
        .position = filling->position,
        .first_parameter = script->parameter_count,
        .storage = storage_of(script->program, parameter),
        .reduce_axes =
            parameter->gradient_partial_axes & data_axes(script->program, parameter->kind),
        .same_as = -1,
        .tied_stage = tied_stage(script, parameter->tie),
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

// Whether two untied parameters of one kind are reduced and stored over the same axes.
static bool is_alike(const struct program *program, const struct parameter *a,
                     const struct parameter *b)
{
    unsigned data = data_axes(program, a->kind);
    return (a->gradient_partial_axes & data) == (b->gradient_partial_axes & data) &&
           own_axes(program, a) == own_axes(program, b);
}

// A unit for the untied ones from `first` on that are like it and not yet in one.
static void add_group(struct filling *filling, int first, bool *is_done)
{
    const struct block_program *block = block_of(filling->script->program, filling->block);
    const struct parameter *like = &block->parameters[first];
    begin_unit(filling, like);
    for (int i = first; i < block->parameter_count; i++) {
        const struct parameter *parameter = &block->parameters[i];
        if (is_done[i] || parameter->kind != like->kind || parameter->tie) continue;
        if (!is_alike(filling->script->program, parameter, like)) continue;
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
            begin_unit(filling, parameter);
            add_parameter(filling, i);
        }
    }
    for (int i = 0; i < block->parameter_count && is_combined; i++) {
        if (block->parameters[i].kind != kind || !block->parameters[i].tie) continue;
        begin_unit(filling, &block->parameters[i]);
        add_parameter(filling, i);
    }
}

void script_add_state(struct arena *arena, struct script *script)
{
    const struct program *program = script->program;
    int count = count_parameters(program, script->stage);
    struct filling filling = {.arena = arena, .script = script, .parameter_capacity = count};
    script->parameters = ARENA_NEW(arena, struct script_parameter, count);
    script->units = ARENA_NEW(arena, struct script_unit, count);
    script->parameter_count = script->unit_count = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int at = script->stage * program->shape.chunk_count + c, position = 0;
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        for (int u = 0; u < chunk->use_count; u++) {
            for (int i = 0; i < chunk->uses[u].count; i++, position++) {
                filling.chunk = c;
                filling.position = position;
                filling.sequence = program->spans[at].first + position;
                filling.block = chunk->uses[u].block_program;
                for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
                    add_kind(&filling, (enum parameter_kind)kind);
            }
        }
    }
}

struct slice script_unit_slice(const struct script *script, int unit, unsigned axes, int rank)
{
    struct layout layout = {{0}};
    for (int i = 0; i < script->program->mesh.axis_count; i++) {
        if (axes >> i & 1) layout.of[i] = DIM_FLAT;
    }
    return layout_slice(&layout, &script->program->mesh, DIM_FLAT, script->units[unit].elements,
                        rank);
}
