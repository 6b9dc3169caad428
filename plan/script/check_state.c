#include "plan/script/checking.h"

#include <string.h>

// The state: every parameter in one unit, every gradient complete before it is reduced, reduced
// over all that it is partial over, updated once.

// Axes of `axes` that split the parameter itself.
static unsigned splitting(const struct parameter *parameter, unsigned axes)
{
    unsigned found = 0;
    for (int i = 0; i < MESH_AXIS_MAX; i++) {
        if (axes >> i & 1 && parameter->layout.of[i] > 0) found |= 1u << i;
    }
    return found;
}

// Along the axes that shard an optimizer's state a gradient must be summed by then.
static bool check_axes(const struct checking *checking, const struct check_stage *stage, int unit,
                       const struct parameter *parameter)
{
    const struct script_unit *of = &stage->script->units[unit];
    const struct storage *whole = &stage->script->program->storage[parameter->kind];
    unsigned partial = parameter->gradient_partial_axes;
    unsigned split = splitting(parameter, whole->optimizer_axes);
    bool is_stored = of->storage.weight_axes == (whole->weight_axes & ~split) &&
                     of->storage.gradient_axes == (whole->gradient_axes & ~split) &&
                     of->storage.optimizer_axes == (whole->optimizer_axes & ~split);
    if (!is_stored) return check_fail_unit(checking, stage, unit, "is stored over other axes");
    if (of->reduce_axes & ~partial)
        return check_fail_unit(checking, stage, unit,
                               "is reduced over axes over which it is whole");
    unsigned summed = of->reduce_axes | of->storage.gradient_axes;
    if (of->storage.optimizer_axes & ~summed)
        return check_fail_unit(checking, stage, unit, "is not summed over the axes of its storage");
    return true;
}

static bool check_parameters(const struct checking *checking, struct check_stage *stage, int unit,
                             int *seen)
{
    const struct script *script = stage->script;
    const struct script_unit *of = &script->units[unit];
    int64_t elements = 0;
    int end = of->first_parameter + of->parameter_count;
    if (of->first_parameter != *seen || of->parameter_count < 1 || end > script->parameter_count)
        return check_fail_unit(checking, stage, unit,
                               "has not the parameters behind the unit before");
    *seen = end;
    for (int i = of->first_parameter; i < end; i++) {
        const struct script_parameter *parameter = &script->parameters[i];
        bool is_here =
            parameter->chunk == of->chunk && parameter->position == of->position &&
            of->chunk >= 0 && of->chunk < script->program->shape.chunk_count && of->position >= 0 &&
            of->position < stage->block_count[of->chunk] &&
            parameter->block == stage->block_at[of->chunk][of->position] &&
            parameter->unit == unit && parameter->index >= 0 &&
            parameter->index < script->program->blocks[parameter->block]->parameter_count;
        if (!is_here) return check_fail_unit(checking, stage, unit, "has a parameter of elsewhere");
        const struct parameter *own = check_described(script, i);
        if (own->kind != of->kind || parameter->first != elements ||
            parameter->elements != own->elements)
            return check_fail_unit(checking, stage, unit,
                                   "has parameters that overlap or leave gaps");
        elements += own->elements;
        if (!check_axes(checking, stage, unit, own)) return false;
    }
    return elements == of->elements ||
           check_fail_unit(checking, stage, unit, "is not as large as its parameters");
}

// Every parameter of every block once; the first of each block is noted.
static bool check_all_there(const struct checking *checking, struct check_stage *stage)
{
    const struct script *script = stage->script;
    for (int i = script->parameter_count - 1; i >= 0; i--) {
        const struct script_parameter *of = &script->parameters[i];
        stage->first_parameter[of->chunk][of->position] = i;
    }
    int at = 0;
    for (int c = 0; c < script->program->shape.chunk_count; c++) {
        for (int p = 0; p < stage->block_count[c]; p++) {
            const struct block_program *block = script->program->blocks[stage->block_at[c][p]];
            int count = block->parameter_count;
            bool *seen = ARENA_NEW(checking->arena, bool, count);
            for (int i = 0; i < count; i++, at++) {
                const struct script_parameter *of =
                    at < script->parameter_count ? &script->parameters[at] : NULL;
                bool is_it = of && of->chunk == c && of->position == p && !seen[of->index];
                if (!is_it)
                    return err_set(checking->err, ERR_INPUT,
                                   "stage %d: block %d of chunk %d has not each parameter once",
                                   script->stage, p, c);
                seen[of->index] = true;
            }
        }
    }
    return at == script->parameter_count ||
           err_set(checking->err, ERR_INPUT, "stage %d has parameters too many", script->stage);
}

static int first_tied(const struct script *script, const char *tie)
{
    for (int i = 0; i < script->parameter_count; i++) {
        const char *other = check_described(script, i)->tie;
        if (other && strcmp(other, tie) == 0) return i;
    }
    return -1;
}

// Whether the number of a tie is that of one of this name, which just those stages have that keep
// such a parameter; -1: no other stage has.
static bool is_tied_right(const struct checking *checking, const char *tie, int tied)
{
    const struct program *program = checking->program;
    int count = 0;
    if (tied >= program->tie_count) return false;
    const struct tied *of = tied < 0 ? NULL : &program->ties[tied];
    for (int s = 0; tie && s < checking->stage_count; s++) {
        if (first_tied(checking->scripts[s], tie) < 0) continue;
        if (of && (count == of->stage_count || of->stages[count] != s)) return false;
        count++;
    }
    return of ? tie && strcmp(of->tie, tie) == 0 && count == of->stage_count && count > 1
              : count < 2;
}

static bool check_ties(const struct checking *checking, const struct check_stage *stage)
{
    const struct script *script = stage->script;
    for (int i = 0; i < script->parameter_count; i++) {
        const struct script_parameter *of = &script->parameters[i];
        const struct script_unit *unit = &script->units[of->unit];
        const char *tie = check_described(script, i)->tie;
        int first = tie ? first_tied(script, tie) : i;
        int same_as = first == i ? -1 : first;
        int same_unit = same_as < 0 ? -1 : script->parameters[same_as].unit;
        bool is_right = of->same_as == same_as && unit->same_as == same_unit &&
                        is_tied_right(checking, tie, unit->tied);
        if (!is_right)
            return check_fail_unit(checking, stage, of->unit, "is not tied as its parameters are");
        if (tie && unit->parameter_count > 1)
            return check_fail_unit(checking, stage, of->unit, "ties one of several parameters");
        bool is_alike =
            same_unit < 0 || (script->units[same_unit].elements == unit->elements &&
                              script->units[same_unit].reduce_axes == unit->reduce_axes &&
                              check_described(script, first)->gradient_partial_axes ==
                                  check_described(script, i)->gradient_partial_axes);
        if (!is_alike)
            return check_fail_unit(checking, stage, of->unit, "is not like what it is tied to");
    }
    return true;
}

// Whoever adds to the state: every GEMM in every micro-batch, or a scattering of the unit.
static void count_adds(const struct checking *checking, struct check_stage *stage)
{
    const struct script *script = stage->script;
    int micro_batches = script->program->shape.micro_batch_count;
    for (int u = 0; u < script->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        int adds = unit->storage.gradient_axes ? 1 : 0;
        for (int i = 0; i < unit->parameter_count && !unit->storage.gradient_axes; i++) {
            const struct script_parameter *of = &script->parameters[unit->first_parameter + i];
            adds += checking->blocks[of->block].gradient_writes[of->index];
        }
        stage->adds_left[check_stored(script, u)] += adds * micro_batches;
    }
}

// Whether two units go through the end of a step together.
static bool goes_with(const struct script_bucket *bucket, const struct script_unit *unit)
{
    return unit->kind == bucket->kind && unit->chunk == bucket->chunk &&
           unit->reduce_axes == bucket->reduce_axes &&
           unit->storage.weight_axes == bucket->storage.weight_axes &&
           unit->storage.gradient_axes == bucket->storage.gradient_axes &&
           unit->storage.optimizer_axes == bucket->storage.optimizer_axes &&
           unit->tied == bucket->tied;
}

// Every unit that is stored is in one bucket, behind the one before; rooms are large enough.
static bool check_buckets(const struct checking *checking, const struct check_stage *stage)
{
    const struct script *script = stage->script;
    bool *seen = ARENA_NEW(checking->arena, bool, script->unit_count);
    for (int b = 0; b < script->bucket_count; b++) {
        const struct script_bucket *bucket = &script->buckets[b];
        int64_t elements = 0;
        for (int i = 0; i < bucket->unit_count; i++) {
            int u = bucket->units[i];
            if (u < 0 || u >= script->unit_count || seen[u])
                return check_fail_unit(checking, stage, u, "is in two buckets");
            const struct script_unit *unit = &script->units[u];
            seen[u] = true;
            if (unit->bucket != b || unit->bucket_first != elements || unit->same_as >= 0)
                return check_fail_unit(checking, stage, u, "is not where its bucket has it");
            if (!goes_with(bucket, unit))
                return check_fail_unit(checking, stage, u, "is not like its bucket");
            if (unit->storage.weights_away && !(bucket->storage.away & AWAY_STATES))
                return check_fail_unit(checking, stage, u, "is off the device, which updates it");
            elements += unit->elements;
        }
        bool has_room = bucket->room < 0 ||
                        (bucket->room < script->room_count && !bucket->storage.gradient_axes &&
                         script->rooms[bucket->room].elements >= elements);
        if (elements != bucket->elements || !has_room)
            return err_set(checking->err, ERR_INPUT, "stage %d: bucket %d is not as large as said",
                           script->stage, b);
    }
    for (int u = 0; u < script->unit_count; u++) {
        if (seen[u] != (script->units[u].same_as < 0))
            return check_fail_unit(checking, stage, u, "is in no bucket");
    }
    return true;
}

bool check_state(const struct checking *checking)
{
    for (int s = 0; s < checking->stage_count; s++) {
        struct check_stage *stage = &checking->stages[s];
        const struct script *script = stage->script;
        int units = script->unit_count, seen = 0;
        stage->adds_left = ARENA_NEW(checking->arena, int, units);
        int buckets = script->bucket_count;
        stage->is_begun = ARENA_NEW(checking->arena, bool, script->parameter_count);
        stage->is_small = ARENA_NEW(checking->arena, bool, script->parameter_count);
        stage->is_tied = ARENA_NEW(checking->arena, bool, buckets);
        stage->is_reduced = ARENA_NEW(checking->arena, bool, buckets);
        stage->is_updated = ARENA_NEW(checking->arena, bool, buckets);
        stage->is_gathered = ARENA_NEW(checking->arena, bool, units);
        stage->is_out = ARENA_NEW(checking->arena, bool, buckets);
        stage->room_buckets = ARENA_NEW(checking->arena, int, script->room_count);
        for (int u = 0; u < units; u++) {
            if (!check_parameters(checking, stage, u, &seen)) return false;
        }
        if (seen != script->parameter_count)
            return check_fail_unit(checking, stage, units, "parameters are left over");
        if (!check_all_there(checking, stage) || !check_buckets(checking, stage)) return false;
    }
    for (int s = 0; s < checking->stage_count; s++) {
        if (!check_ties(checking, &checking->stages[s])) return false;
        count_adds(checking, &checking->stages[s]);
    }
    return true;
}
