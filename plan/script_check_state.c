#include "plan/script_checking.h"

#include <string.h>

// The state: every parameter in one unit, every gradient complete before it is reduced, reduced
// over all that it is partial over, updated once.

static bool fail_unit(const struct checking *checking, const struct check_stage *stage, int unit,
                      const char *what)
{
    return err_set(checking->err, ERR_INPUT, "stage %d, unit %d: %s", stage->script->stage, unit,
                   what);
}

static const struct parameter *parameter_at(const struct script *script, int index)
{
    const struct script_parameter *of = &script->parameters[index];
    return &script->program->blocks[of->block]->parameters[of->index];
}

static int stored_at(const struct script *script, int unit)
{
    return script->units[unit].same_as >= 0 ? script->units[unit].same_as : unit;
}

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
    const struct storage *whole = &checking->program->storage[parameter->kind];
    unsigned partial = parameter->gradient_partial_axes;
    unsigned split = splitting(parameter, whole->optimizer_axes);
    bool is_stored = of->storage.weight_axes == (whole->weight_axes & ~split) &&
                     of->storage.gradient_axes == (whole->gradient_axes & ~split) &&
                     of->storage.optimizer_axes == (whole->optimizer_axes & ~split);
    if (!is_stored) return fail_unit(checking, stage, unit, "is stored over other axes");
    if (of->reduce_axes & ~partial)
        return fail_unit(checking, stage, unit, "is reduced over axes over which it is whole");
    unsigned summed = of->reduce_axes | of->storage.gradient_axes;
    if (of->storage.optimizer_axes & ~summed)
        return fail_unit(checking, stage, unit, "is not summed over the axes of its storage");
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
        return fail_unit(checking, stage, unit, "has not the parameters behind the unit before");
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
        if (!is_here) return fail_unit(checking, stage, unit, "has a parameter of elsewhere");
        const struct parameter *own = parameter_at(script, i);
        if (own->kind != of->kind || parameter->first != elements ||
            parameter->elements != own->elements)
            return fail_unit(checking, stage, unit, "has parameters that overlap or leave gaps");
        elements += own->elements;
        if (!check_axes(checking, stage, unit, own)) return false;
    }
    return elements == of->elements ||
           fail_unit(checking, stage, unit, "is not as large as its parameters");
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
        const char *other = parameter_at(script, i)->tie;
        if (other && strcmp(other, tie) == 0) return i;
    }
    return -1;
}

static int stage_with(const struct checking *checking, int own, const char *tie)
{
    for (int s = 0; s < checking->stage_count; s++) {
        if (s != own && first_tied(checking->scripts[s], tie) >= 0) return s;
    }
    return -1;
}

static bool check_ties(const struct checking *checking, const struct check_stage *stage)
{
    const struct script *script = stage->script;
    for (int i = 0; i < script->parameter_count; i++) {
        const struct script_parameter *of = &script->parameters[i];
        const struct script_unit *unit = &script->units[of->unit];
        const char *tie = parameter_at(script, i)->tie;
        int first = tie ? first_tied(script, tie) : i;
        int other = tie ? stage_with(checking, script->stage, tie) : -1;
        int same_as = first == i ? -1 : first;
        int same_unit = same_as < 0 ? -1 : script->parameters[same_as].unit;
        if (of->same_as != same_as || unit->same_as != same_unit || unit->tied_stage != other)
            return fail_unit(checking, stage, of->unit, "is not tied as its parameters are");
        if (tie && unit->parameter_count > 1)
            return fail_unit(checking, stage, of->unit, "ties one of several parameters");
        bool is_alike =
            same_unit < 0 || (script->units[same_unit].elements == unit->elements &&
                              script->units[same_unit].reduce_axes == unit->reduce_axes &&
                              parameter_at(script, first)->gradient_partial_axes ==
                                  parameter_at(script, i)->gradient_partial_axes);
        if (!is_alike)
            return fail_unit(checking, stage, of->unit, "is not like what it is tied to");
    }
    return true;
}

// Whoever adds to the state: every product in every micro-batch, or a scattering of the unit.
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
        stage->adds_left[stored_at(script, u)] += adds * micro_batches;
    }
}

bool check_state(const struct checking *checking)
{
    for (int s = 0; s < checking->stage_count; s++) {
        struct check_stage *stage = &checking->stages[s];
        const struct script *script = stage->script;
        int units = script->unit_count, seen = 0;
        stage->adds_left = ARENA_NEW(checking->arena, int, units);
        stage->is_small = ARENA_NEW(checking->arena, bool, script->parameter_count);
        stage->is_tied = ARENA_NEW(checking->arena, bool, units);
        stage->is_reduced = ARENA_NEW(checking->arena, bool, units);
        stage->is_updated = ARENA_NEW(checking->arena, bool, units);
        stage->is_gathered = ARENA_NEW(checking->arena, bool, units);
        for (int u = 0; u < units; u++) {
            if (!check_parameters(checking, stage, u, &seen)) return false;
        }
        if (seen != script->parameter_count)
            return fail_unit(checking, stage, units, "parameters are left over");
        if (!check_all_there(checking, stage)) return false;
    }
    for (int s = 0; s < checking->stage_count; s++) {
        if (!check_ties(checking, &checking->stages[s])) return false;
        count_adds(checking, &checking->stages[s]);
    }
    return true;
}

static unsigned small_axes(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    return parameter_at(script, parameter)->gradient_partial_axes &
           ~script->units[of->unit].reduce_axes;
}

bool check_added(const struct checking *checking, struct check_stage *stage, int unit)
{
    int at = stored_at(stage->script, unit);
    const struct script_unit *of = &stage->script->units[at];
    bool is_begun = stage->is_reduced[at] || stage->is_tied[at];
    for (int i = of->first_parameter; i < of->first_parameter + of->parameter_count; i++)
        is_begun = is_begun || stage->is_small[i];
    if (is_begun)
        return check_fail(checking, stage, "adds to unit %d, which was reduced before", at);
    if (--stage->adds_left[at] >= 0) return true;
    return check_fail(checking, stage, "adds to unit %d once too often", at);
}

// Small and tied gradients are summed before those of the unit.
static const char *reduce_small(struct check_stage *stage, const struct script_task *task)
{
    const struct script *script = stage->script;
    int parameter = task->parameter;
    if (parameter < 0 || parameter >= script->parameter_count ||
        script->parameters[parameter].unit != task->unit)
        return "is of no parameter of its unit";
    if (!small_axes(script, parameter)) return "is whole already";
    if (stage->is_small[parameter]) return "was reduced before";
    if (stage->is_reduced[task->unit] || stage->is_tied[task->unit])
        return "comes behind the reduction of its unit";
    stage->is_small[parameter] = true;
    return NULL;
}

static bool is_small_done(const struct check_stage *stage, int unit)
{
    const struct script_unit *of = &stage->script->units[unit];
    for (int i = of->first_parameter; i < of->first_parameter + of->parameter_count; i++) {
        if (small_axes(stage->script, i) && !stage->is_small[i]) return false;
    }
    return true;
}

static const char *reduce_tied(const struct checking *checking, struct check_stage *stage,
                               const struct script_task *task)
{
    const struct script_unit *unit = &stage->script->units[task->unit];
    if (unit->tied_stage < 0 || unit->tied_stage != task->peer_stage)
        return "is not tied to that stage";
    if (stage->is_tied[task->unit] || stage->is_reduced[task->unit]) return "was reduced before";
    if (!is_small_done(stage, task->unit)) return "comes before the reduction of a part of it";
    const struct check_stage *other = &checking->stages[task->peer_stage];
    const char *tie = parameter_at(stage->script, unit->first_parameter)->tie;
    for (int u = 0; u < other->script->unit_count; u++) {
        const struct script_unit *its = &other->script->units[u];
        const char *its_tie = parameter_at(other->script, its->first_parameter)->tie;
        bool is_end = its_tie && strcmp(its_tie, tie) == 0 && its->same_as < 0;
        if (is_end && its->elements == unit->elements &&
            its->storage.gradient_axes == unit->storage.gradient_axes) {
            stage->is_tied[task->unit] = true;
            return NULL;
        }
    }
    return "has no other end like it";
}

static const char *reduce_unit(struct check_stage *stage, const struct script_task *task)
{
    const struct script_unit *unit = &stage->script->units[task->unit];
    if (!unit->reduce_axes) return "is whole already";
    if (stage->is_reduced[task->unit]) return "was reduced before";
    if (!is_small_done(stage, task->unit) || (unit->tied_stage >= 0 && !stage->is_tied[task->unit]))
        return "comes before the reduction of a part of it";
    stage->is_reduced[task->unit] = true;
    return NULL;
}

static const char *unfinished(const struct check_stage *stage, int unit)
{
    const struct script_unit *of = &stage->script->units[unit];
    if (of->same_as >= 0) return NULL;
    if (stage->adds_left[unit] != 0) return "lacks gradients of micro-batches";
    if (!is_small_done(stage, unit) || (of->reduce_axes && !stage->is_reduced[unit]) ||
        (of->tied_stage >= 0 && !stage->is_tied[unit]))
        return "is not reduced";
    return NULL;
}

static const char *take_norm(const struct checking *checking, struct check_stage *stage)
{
    if (stage->has_norm) return "is there twice";
    for (int u = 0; u < stage->script->unit_count; u++) {
        const char *why = unfinished(stage, u);
        if (why) return arena_print(checking->arena, "comes where unit %d %s", u, why);
    }
    stage->has_norm = true;
    return NULL;
}

static const char *update(struct check_stage *stage, const struct script_task *task)
{
    if (!stage->has_norm) return "comes before the gradient norm";
    if (stage->is_updated[task->unit]) return "was updated before";
    stage->is_updated[task->unit] = true;
    return NULL;
}

static bool has_gather(const struct script_unit *unit)
{
    return unit->storage.optimizer_axes && !unit->storage.weight_axes && unit->same_as < 0;
}

static const char *gather(struct check_stage *stage, const struct script_task *task)
{
    if (!has_gather(&stage->script->units[task->unit])) return "is whole already, or never";
    if (!stage->is_updated[task->unit]) return "comes before the update";
    if (stage->is_gathered[task->unit]) return "was gathered before";
    stage->is_gathered[task->unit] = true;
    return NULL;
}

static const char *take(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    if (task->kind == SCRIPT_NORM) return take_norm(checking, stage);
    if (task->unit < 0 || task->unit >= stage->script->unit_count) return "is of no unit";
    if (stage->script->units[task->unit].same_as >= 0) return "is of a unit stored elsewhere";
    if (stage->adds_left[task->unit] != 0) return "comes before the last gradient of its unit";
    switch (task->kind) {
    case SCRIPT_SMALL_REDUCE:
        return reduce_small(stage, task);
    case SCRIPT_TIED_REDUCE:
        return reduce_tied(checking, stage, task);
    case SCRIPT_GRADIENT_REDUCE:
        return reduce_unit(stage, task);
    case SCRIPT_UPDATE:
        return update(stage, task);
    case SCRIPT_PARAMETER_GATHER:
        return gather(stage, task);
    default:
        return "is of no kind that there is";
    }
}

// What it reads and writes of the state, behind whoever did before.
static bool use_state(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    struct check_use *gradients = stage->gradient_uses, *weights = stage->weight_uses;
    switch (task->kind) {
    case SCRIPT_SMALL_REDUCE:
        return check_use_parameter(checking, stage, gradients, task->parameter, true);
    case SCRIPT_UPDATE:
        return check_use_unit(checking, stage, gradients, task->unit, false) &&
               check_use_unit(checking, stage, weights, task->unit, true);
    case SCRIPT_PARAMETER_GATHER:
        return check_use_unit(checking, stage, weights, task->unit, true);
    case SCRIPT_NORM:
        for (int u = 0; u < stage->script->unit_count; u++) {
            if (!check_use_unit(checking, stage, gradients, u, false)) return false;
        }
        return true;
    default:
        return check_use_unit(checking, stage, gradients, task->unit, true);
    }
}

bool check_step_task(const struct checking *checking, struct check_stage *stage)
{
    const char *why = take(checking, stage);
    if (why) return check_fail(checking, stage, "%s", why);
    return use_state(checking, stage);
}

static int64_t instr_count(const struct checking *checking, const struct check_stage *stage)
{
    int64_t count = 0;
    for (int c = 0; c < checking->program->shape.chunk_count; c++) {
        for (int p = 0; p < stage->block_count[c]; p++) {
            const struct block_program *block = checking->program->blocks[stage->block_at[c][p]];
            for (int i = 0; i < block->instr_count; i++)
                count += !check_is_term_sum(block, &block->instrs[i]);
        }
    }
    return count * checking->program->shape.micro_batch_count;
}

bool check_step_end(const struct checking *checking, struct check_stage *stage)
{
    const struct script *script = stage->script;
    const struct chunk_span *spans = checking->program->spans;
    bool has_head = false;
    for (int c = 0; c < checking->program->shape.chunk_count; c++) {
        const struct chunk_span *span =
            &spans[script->stage * checking->program->shape.chunk_count + c];
        has_head =
            has_head || span->first + span->count == checking->program->graph->sequence_count;
    }
    int64_t wanted = instr_count(checking, stage);
    if (stage->done_count != wanted)
        return check_fail(checking, stage, "%lld of %lld instructions are done",
                          (long long)stage->done_count, (long long)wanted);
    if (has_head && stage->loss_count != checking->program->shape.micro_batch_count)
        return check_fail(checking, stage, "%d losses are taken, not one a micro-batch",
                          stage->loss_count);
    if (!stage->has_norm) return check_fail(checking, stage, "there is no gradient norm");
    for (int u = 0; u < script->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        if (unit->same_as < 0 && !stage->is_updated[u])
            return fail_unit(checking, stage, u, "is never updated");
        if (has_gather(unit) && !stage->is_gathered[u])
            return fail_unit(checking, stage, u, "is not gathered after its update");
    }
    return true;
}
