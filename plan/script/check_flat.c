#include "plan/script/checking.h"

// Collectives on whole units (ZeRO 2 and 3), and rooms for gradients, whose parts are of those who
// write them first.

static bool check_units(const struct checking *checking, const struct check_stage *stage,
                        bool is_gather, int64_t *bytes)
{
    const struct script *script = stage->script;
    const struct script_task *task = check_task(stage);
    *bytes = 0;
    if (task->unit < 0 || task->unit_count < 1 ||
        task->unit + task->unit_count > script->unit_count)
        return check_fail(checking, stage, "covers no unit");
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        const struct storage *storage = &unit->storage;
        bool is_stored = is_gather ? storage_gathers(storage) : storage_scatters(storage);
        bool is_right = unit->chunk == task->chunk && unit->position == task->position &&
                        unit->kind == script->units[task->unit].kind && is_stored;
        if (!is_right) return check_fail(checking, stage, "covers a unit that is not its own");
        *bytes += unit->elements * check_element_bytes(checking);
    }
    return true;
}

// Where each parameter of the units lies in the flat buffer.
static void place(const struct checking *checking, const struct check_stage *stage, int value,
                  struct check_part *parts)
{
    const struct script *script = stage->script;
    const struct script_task *task = check_task(stage);
    int64_t width = check_element_bytes(checking), offset = stage->values[value].offset;
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct script_parameter *of = &script->parameters[unit->first_parameter + i];
            parts[of->index] =
                (struct check_part){1 + value, offset + of->first * width, of->elements * width};
        }
        offset += unit->elements * width;
    }
}

static bool check_first_unit(const struct checking *checking, struct check_stage *stage, int unit,
                             const struct script_operand *operand)
{
    const struct script_unit *of = &stage->script->units[unit];
    for (int p = of->first_parameter; p < of->first_parameter + of->parameter_count; p++) {
        if (!check_first(checking, stage, p, operand)) return false;
    }
    return true;
}

static bool check_state_operands(const struct checking *checking, struct check_stage *stage,
                                 const struct script_operand *operands, int count,
                                 enum script_place where)
{
    const struct script_task *task = check_task(stage);
    bool is_right = count == task->unit_count;
    for (int i = 0; i < count && is_right; i++) {
        const struct script_unit *unit = &stage->script->units[task->unit + i];
        is_right = operands[i].place == where && operands[i].parameter == unit->first_parameter;
    }
    if (!is_right) return check_fail(checking, stage, "has not its units in the state");
    bool is_weight = where == PLACE_WEIGHT;
    struct check_use *uses = is_weight ? stage->weight_uses : stage->gradient_uses;
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        int first = stage->script->units[u].first_parameter;
        if (is_weight && !check_old_weight(checking, stage, first)) return false;
        if (is_weight && operands[u - task->unit].adds)
            return check_fail(checking, stage, "adds to what it reads");
        if (!is_weight && !check_first_unit(checking, stage, u, &operands[u - task->unit]))
            return false;
        if (!check_use_unit(checking, stage, uses, u, !is_weight)) return false;
    }
    return true;
}

static bool make(const struct checking *checking, struct check_stage *stage, int64_t bytes,
                 struct check_part *parts)
{
    const struct script_task *task = check_task(stage);
    int value;
    if (task->output_count != 1 || task->outputs[0].bytes != bytes || task->outputs[0].adds)
        return check_fail(checking, stage, "does not make %lld bytes", (long long)bytes);
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        const struct script_unit *unit = &stage->script->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            int index = stage->script->parameters[unit->first_parameter + i].index;
            if (parts[index].value) return check_fail(checking, stage, "is there already");
        }
    }
    if (!check_write(checking, stage, &task->outputs[0], &value)) return false;
    place(checking, stage, value, parts);
    return true;
}

static bool is_taken(const struct script_task *task, int parameter)
{
    for (int i = 1; i < task->input_count; i++) {
        if (task->inputs[i].parameter == parameter) return true;
    }
    return false;
}

// Everything that adds to the room has, and what waited for it is taken.
static bool check_complete(const struct checking *checking, const struct check_stage *stage,
                           int *taken)
{
    const struct script_task *task = check_task(stage);
    const struct check_block *block = &checking->blocks[task->block];
    const struct script *script = stage->script;
    struct check_work *work = check_work_of(stage, task);
    *taken = 0;
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        for (int p = unit->first_parameter; p < unit->first_parameter + unit->parameter_count;
             p++) {
            int index = script->parameters[p].index;
            if (work->added[index] != block->gradient_writes[index] || work->is_scattered[index])
                return check_fail(checking, stage,
                                  "a gradient in it is not complete, or was "
                                  "scattered before");
            work->is_scattered[index] = true;
            if (!work->waiting[index]) continue;
            ++*taken;
            if (!is_taken(task, p))
                return check_fail(checking, stage, "does not take the gradient of parameter %d", p);
        }
    }
    return true;
}

// The parts of the room, one behind another: those that tasks have written, and what waited.
static bool take_room(const struct checking *checking, struct check_stage *stage, int64_t bytes)
{
    const struct script *script = stage->script;
    const struct script_task *task = check_task(stage);
    struct script_operand part = task->inputs[0];
    struct check_work *work = check_work_of(stage, task);
    if (part.place != PLACE_ARENA || part.offset % script->alignment != 0)
        return check_fail(checking, stage, "has no room in the arena");
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct script_parameter *of = &script->parameters[unit->first_parameter + i];
            int value = work->room[of->index] - 1;
            if (value < 0 && !work->waiting[of->index])
                return check_fail(checking, stage, "its room has nothing of parameter %d",
                                  unit->first_parameter + i);
            part.bytes = of->elements * check_element_bytes(checking);
            bool is_right = value < 0 ? check_write_part(checking, stage, &part, &value)
                                      : check_read(checking, stage, &part, value, NULL);
            if (!is_right) return false;
            part.offset += part.bytes;
        }
    }
    int64_t at = task->inputs[0].offset;
    return check_use_bytes(checking, stage, at, at + bytes, true);
}

static bool scatter(const struct checking *checking, struct check_stage *stage, int64_t bytes)
{
    const struct script *script = stage->script;
    const struct script_task *task = check_task(stage);
    const struct block_program *block = checking->program->blocks[task->block];
    struct check_work *work = check_work_of(stage, task);
    int taken;
    if (!check_complete(checking, stage, &taken)) return false;
    if (task->input_count != 1 + taken || task->inputs[0].bytes != bytes)
        return check_fail(checking, stage, "does not take its room of %lld bytes and %d more",
                          (long long)bytes, taken);
    if (task->inputs[0].buffer != block->instrs[task->instr].inputs[0])
        return check_fail(checking, stage, "takes %s for its room",
                          check_buffer_name(block, task->inputs[0].buffer));
    for (int i = 1; i < task->input_count; i++) {
        int index = script->parameters[task->inputs[i].parameter].index;
        if (task->inputs[i].adds != (work->room[index] > 0))
            return check_fail(checking, stage, "%s is %s",
                              check_buffer_name(block, task->inputs[i].buffer),
                              work->room[index] ? "put over what its room has"
                                                : "added to a room that has nothing of it");
        if (task->inputs[i].buffer != work->waiting_buffer[index])
            return check_fail(checking, stage, "takes %s for the gradient of parameter %d",
                              check_buffer_name(block, task->inputs[i].buffer),
                              task->inputs[i].parameter);
        if (!check_read(checking, stage, &task->inputs[i], work->waiting[index] - 1, NULL))
            return false;
    }
    if (!take_room(checking, stage, bytes) ||
        !check_state_operands(checking, stage, task->outputs, task->output_count, PLACE_GRADIENT))
        return false;
    for (int u = task->unit; u < task->unit + task->unit_count; u++) {
        if (!check_added(checking, stage, u)) return false;
    }
    return true;
}

// Whether a fetching would bring what is there: what forward fetched, or backward of the
// micro-batch before.
static bool is_there(const struct block_program *block, int micro_batch, int half)
{
    return half ? block->weights_turn : block->weights_rounds > 0 && micro_batch > 0;
}

const struct check_part *check_gathered(const struct check_stage *stage,
                                        const struct script_task *task, int half, int index)
{
    const struct program *program = stage->script->program;
    int at = task->micro_batch;
    // Half by half back to the one that fetched it.
    for (; is_there(program->blocks[task->block], at, half); half = !half)
        at -= !half;
    const struct check_work *works = stage->works[at * program->shape.chunk_count + task->chunk];
    return &works[task->position].gathered[half][index];
}

bool check_flat_task(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    const struct block_program *block = checking->program->blocks[task->block];
    const struct instr *instr = &block->instrs[task->instr];
    struct check_work *work = check_work_of(stage, task);
    bool is_gather = instr_gathers(instr);
    int64_t bytes;
    if (!check_units(checking, stage, is_gather, &bytes)) return false;
    if (instr->bytes != bytes)
        return check_fail(checking, stage, "moves %lld bytes, but its units have %lld",
                          (long long)instr->bytes, (long long)bytes);
    if (!is_gather) return scatter(checking, stage, bytes);
    if (is_there(block, task->micro_batch, instr->phase != PHASE_FORWARD))
        return check_fail(checking, stage, "fetches what has stayed");
    if (task->output_count == 1 && task->outputs[0].buffer != instr->outputs[0])
        return check_fail(checking, stage, "gathers into %s",
                          check_buffer_name(block, task->outputs[0].buffer));
    return check_state_operands(checking, stage, task->inputs, task->input_count, PLACE_WEIGHT) &&
           make(checking, stage, bytes, work->gathered[instr->phase != PHASE_FORWARD]);
}
