#include "plan/script/checking.h"

#include <string.h>

// What tasks read and write in the arena.

struct check_work *check_work_of(const struct check_stage *stage, const struct script_task *task)
{
    int chunks = stage->script->program->shape.chunk_count;
    return &stage->works[task->micro_batch * chunks + task->chunk][task->position];
}

bool check_write_part(const struct checking *checking, struct check_stage *stage,
                      const struct script_operand *operand, int *value)
{
    const struct script *script = stage->script;
    const char *name =
        check_buffer_name(script->program->blocks[check_task(stage)->block], operand->buffer);
    if (operand->place != PLACE_ARENA)
        return check_fail(checking, stage, "%s is not in the arena", name);
    bool is_inside = operand->offset >= 0 && operand->bytes >= 0 &&
                     operand->bytes <= script->arena_bytes &&
                     operand->offset <= script->arena_bytes - operand->bytes;
    if (!is_inside)
        return check_fail(checking, stage, "%s at %lld with %lld bytes is outside the arena", name,
                          (long long)operand->offset, (long long)operand->bytes);
    ARENA_GROW(checking->arena, stage->values, stage->value_count, stage->value_capacity);
    *value = stage->value_count++;
    stage->values[*value] = (struct check_value){stage->next, operand->offset, operand->bytes, 0};
    check_map_write(&stage->map, operand->offset, operand->offset + operand->bytes, *value);
    return check_use_bytes(checking, stage, operand->offset, operand->offset + operand->bytes,
                           true);
}

bool check_write(const struct checking *checking, struct check_stage *stage,
                 const struct script_operand *operand, int *value)
{
    const struct script *script = stage->script;
    bool is_aligned = operand->offset % script->alignment == 0;
    if (operand->place == PLACE_ARENA && !is_aligned)
        return check_fail(
            checking, stage, "%s at %lld is not aligned to %lld",
            check_buffer_name(script->program->blocks[check_task(stage)->block], operand->buffer),
            (long long)operand->offset, (long long)script->alignment);
    return check_write_part(checking, stage, operand, value);
}

bool check_read(const struct checking *checking, struct check_stage *stage,
                const struct script_operand *operand, int value, const struct check_part *part)
{
    const struct script *script = stage->script;
    const char *name =
        check_buffer_name(script->program->blocks[check_task(stage)->block], operand->buffer);
    if (operand->place != PLACE_ARENA)
        return check_fail(checking, stage, "%s is not in the arena", name);
    if (value < 0) return check_fail(checking, stage, "reads %s before it is written", name);
    const struct check_value *of = &stage->values[value];
    int64_t offset = part ? part->offset : of->offset, bytes = part ? part->bytes : of->bytes;
    if (operand->offset != offset || operand->bytes != bytes)
        return check_fail(checking, stage,
                          "%s is read at %lld with %lld bytes, but %s has it at "
                          "%lld with %lld",
                          name, (long long)operand->offset, (long long)operand->bytes,
                          script_task_name(checking->arena, script, of->task), (long long)offset,
                          (long long)bytes);
    if (of->exchanges_left > 0)
        return check_fail(checking, stage, "reads %s before the exchanges inside %s are done", name,
                          script_task_name(checking->arena, script, of->task));
    int other = check_map_other(&stage->map, offset, offset + bytes, value);
    if (other == CHECK_MAP_SAME)
        return check_use_bytes(checking, stage, offset, offset + bytes, false);
    const char *who = other == CHECK_MAP_NOTHING
                          ? "nobody"
                          : script_task_name(checking->arena, script, stage->values[other].task);
    return check_fail(checking, stage, "reads %s, which %s has overwritten since %s wrote it", name,
                      who, script_task_name(checking->arena, script, of->task));
}

int check_parameter(const struct check_stage *stage, const struct script_task *task, int index)
{
    const struct script *script = stage->script;
    int i = stage->first_parameter[task->chunk][task->position];
    while (script->parameters[i].index != index)
        i++;
    return i;
}

int64_t check_element_bytes(const struct checking *checking)
{
    return lower_element_bytes(ELEMENT_COMPUTE, checking->program->workload.precision);
}

static struct check_work *works_make(const struct checking *checking,
                                     const struct check_stage *stage, int chunk)
{
    struct arena *arena = checking->arena;
    int count = stage->block_count[chunk];
    struct check_work *works = ARENA_NEW(arena, struct check_work, count);
    for (int p = 0; p < count; p++) {
        const struct check_block *block = &checking->blocks[stage->block_at[chunk][p]];
        int parameters = block->program->parameter_count;
        struct check_work *work = &works[p];
        work->is_done = ARENA_NEW(arena, bool, block->program->instr_count);
        work->versions = ARENA_NEW(arena, int, block->version_first[block->program->buffer_count]);
        for (int half = 0; half < 2; half++)
            work->gathered[half] = ARENA_NEW(arena, struct check_part, parameters);
        work->room = ARENA_NEW(arena, int, parameters);
        work->added = ARENA_NEW(arena, int, parameters);
        work->waiting = ARENA_NEW(arena, int, parameters);
        work->waiting_buffer = ARENA_NEW(arena, int, parameters);
        work->is_scattered = ARENA_NEW(arena, bool, parameters);
        if (stage->moved_at[chunk][p])
            work->moved = ARENA_NEW(arena, int, block->program->buffer_count);
    }
    return works;
}

static struct check_work *works_at(const struct check_flow *flow, int chunk)
{
    int chunks = flow->checking->program->shape.chunk_count;
    struct check_work **works = &flow->stage->works[flow->task->micro_batch * chunks + chunk];
    if (!*works) *works = works_make(flow->checking, flow->stage, chunk);
    return *works;
}

// The chunk of this stage whose blocks stand right in front of a chunk's (-1) or behind them (1);
// -1: it is on another stage, or there is none.
static int chunk_beside(const struct check_flow *flow, int chunk, int direction)
{
    const struct schedule_row *row = schedule_row(flow->checking->program->parallel.schedule);
    const struct schedule_shape *shape = &flow->checking->program->shape;
    int count = shape->stage_count * shape->chunk_count, own = flow->stage->script->stage;
    for (int s = 0; s < count; s++) {
        if (row->stage_of(shape, s) != own || row->chunk_of(shape, s) != chunk) continue;
        int other = s + direction;
        bool is_here = other >= 0 && other < count && row->stage_of(shape, other) == own;
        return is_here ? row->chunk_of(shape, other) : -1;
    }
    return -1;
}

// The value of a version of a buffer of a block; -1: not there. What comes from a neighbour on this
// stage is that one's.
int check_value_of(const struct check_flow *flow, int chunk, int position, int buffer, int version)
{
    const struct check_block *block =
        &flow->checking->blocks[flow->stage->block_at[chunk][position]];
    const struct check_work *work = &works_at(flow, chunk)[position];
    int value = work->versions[block->version_first[buffer] + version] - 1;
    if (value >= 0 || version > 0) return value;
    int input = block_edge_of(block->program->inputs, buffer);
    int gradient = block_edge_of(block->program->output_gradients, buffer);
    if (input < 0 && gradient < 0) return -1;
    bool is_forward = input >= 0;
    position += is_forward ? -1 : 1;
    if (position < 0 || position == flow->stage->block_count[chunk]) {
        chunk = chunk_beside(flow, chunk, is_forward ? -1 : 1);
        if (chunk < 0) return -1;
        position = is_forward ? flow->stage->block_count[chunk] - 1 : 0;
    }
    const struct check_block *other =
        &flow->checking->blocks[flow->stage->block_at[chunk][position]];
    int k = is_forward ? input : gradient;
    buffer = is_forward ? other->program->outputs[k] : other->program->input_gradients[k];
    version = is_forward ? other->output_version[k] : other->input_gradient_version[k];
    if (buffer < 0 || version < 0) return -1;
    return check_value_of(flow, chunk, position, buffer, version);
}

bool check_is_moved(const struct check_flow *flow, int buffer)
{
    unsigned classes = flow->stage->moved_at[flow->task->chunk][flow->task->position];
    return flow->block->program->buffers[buffer].saved &&
           classes >> flow->block->classes[buffer] & 1;
}

// What backward reads of what was moved is what came back.
int check_read_value(const struct check_flow *flow, int buffer, int version, bool is_backward)
{
    bool came_back = is_backward && check_is_moved(flow, buffer) &&
                     version == flow->block->forward_version[buffer];
    if (came_back) return flow->work->moved[buffer] - 1;
    return check_value_of(flow, flow->task->chunk, flow->task->position, buffer, version);
}

bool check_write_version(const struct check_flow *flow, const struct script_operand *operand,
                         int version)
{
    const struct block_program *block = flow->block->program;
    const char *name = check_buffer_name(block, operand->buffer);
    int *slot = &flow->work->versions[flow->block->version_first[operand->buffer] + version];
    if (operand->bytes != block->buffers[operand->buffer].bytes)
        return check_fail(flow->checking, flow->stage, "%s has %lld bytes, not %lld", name,
                          (long long)block->buffers[operand->buffer].bytes,
                          (long long)operand->bytes);
    if (*slot) return check_fail(flow->checking, flow->stage, "writes %s a second time", name);
    if (version > 0) {
        int before = check_value_of(flow, flow->task->chunk, flow->task->position, operand->buffer,
                                    version - 1);
        if (before < 0 || flow->stage->values[before].offset != operand->offset)
            return check_fail(flow->checking, flow->stage, "%s is written in place, but elsewhere",
                              name);
    }
    int value = -1;
    if (!check_write(flow->checking, flow->stage, operand, &value)) return false;
    *slot = 1 + value;
    if (flow->task->kind == TASK_INSTR)
        flow->stage->values[value].exchanges_left = flow->block->exchanges[flow->task->instr];
    return true;
}

static bool read_external(const struct check_flow *flow, const struct instr *instr,
                          const struct script_operand *operand)
{
    const struct check_block *block = flow->block;
    int tensor = block->program->buffers[operand->buffer].tensor;
    const char *name = check_buffer_name(block->program, operand->buffer);
    int index = check_weight_of(block, tensor);
    if (index < 0) {
        bool is_ids = tensor >= 0 && block->program->block->tensors[tensor].role == TENSOR_IDS;
        if (is_ids && operand->place == PLACE_IDS) return true;
        return check_fail(flow->checking, flow->stage, "%s is no data of the micro-batch", name);
    }
    const struct parameter *parameter = &block->program->parameters[index];
    if (operand->parameter != check_parameter(flow->stage, flow->task, index))
        return check_fail(flow->checking, flow->stage, "%s is another parameter", name);
    if (!layout_equal(&parameter->layout, &block->program->buffers[operand->buffer].layout))
        return check_fail(flow->checking, flow->stage, "%s is read in another layout than stored",
                          name);
    const struct program *program = flow->stage->script->program;
    struct storage storage = program_stores(program, block->program, parameter->kind);
    if (!storage_gathers(&storage)) {
        if (operand->place == PLACE_WEIGHT)
            return check_old_weight(flow->checking, flow->stage, operand->parameter) &&
                   check_use_parameter(flow->checking, flow->stage, flow->stage->weight_uses,
                                       operand->parameter, false);
        return check_fail(flow->checking, flow->stage, "%s is not read from the state", name);
    }
    const struct check_part *part =
        check_gathered(flow->stage, flow->task, instr->phase != PHASE_FORWARD, index);
    return check_read(flow->checking, flow->stage, operand, part->value - 1, part);
}

// What is read is written too: added to, or passed on in place.
static bool use_again(const struct check_flow *flow, const struct script_operand *operand)
{
    return check_use_bytes(flow->checking, flow->stage, operand->offset,
                           operand->offset + operand->bytes, true);
}

static bool read_input(const struct check_flow *flow, int at)
{
    const struct block_program *block = flow->block->program;
    const struct instr *instr = &block->instrs[flow->task->instr];
    const struct script_operand *operand = &flow->task->inputs[at];
    int buffer = instr->inputs[at], version = flow->block->read_version[flow->task->instr][at];
    if (operand->buffer != buffer)
        return check_fail(flow->checking, flow->stage, "input %d is %s, not %s", at,
                          check_buffer_name(block, operand->buffer),
                          check_buffer_name(block, buffer));
    if (block->buffers[buffer].external) return read_external(flow, instr, operand);
    if (version < 0 && instr->inner > 0) {
        // An exchange fills its own buffer.
        int value;
        return operand->bytes == block->buffers[buffer].bytes
                   ? check_write(flow->checking, flow->stage, operand, &value)
                   : check_fail(flow->checking, flow->stage, "its buffer has another size");
    }
    int value =
        version < 0 ? -1 : check_read_value(flow, buffer, version, instr->phase != PHASE_FORWARD);
    if (!check_read(flow->checking, flow->stage, operand, value, NULL)) return false;
    bool is_attention =
        !instr->collective && (instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD);
    return !is_attention || !flow->block->is_streamed[buffer] || use_again(flow, operand);
}

// The first to write a part of a room begins it, with what its parameter has.
static bool write_room(const struct check_flow *flow, const struct script_operand *operand,
                       int index)
{
    const struct check_block *block = flow->block;
    const char *name = check_buffer_name(block->program, operand->buffer);
    int64_t bytes =
        block->program->parameters[index].elements * check_element_bytes(flow->checking);
    int *room = &flow->work->room[index], value = *room - 1;
    if (operand->adds != (*room > 0))
        return check_fail(flow->checking, flow->stage,
                          *room ? "%s is written over what its room has"
                                : "%s is added to a room that has nothing of it",
                          name);
    if (*room)
        return check_read(flow->checking, flow->stage, operand, value, NULL) &&
               use_again(flow, operand);
    if (operand->bytes != bytes)
        return check_fail(flow->checking, flow->stage, "%s is not all of its part of a room", name);
    if (!check_write_part(flow->checking, flow->stage, operand, &value)) return false;
    *room = 1 + value;
    return true;
}

static bool write_gradient(const struct check_flow *flow, const struct instr *instr,
                           const struct script_operand *operand)
{
    const struct check_block *block = flow->block;
    const char *name = check_buffer_name(block->program, operand->buffer);
    int index = check_gradient_of(block, block->program->buffers[operand->buffer].tensor);
    if (index < 0)
        return check_fail(flow->checking, flow->stage, "%s is no parameter's gradient", name);
    int parameter = check_parameter(flow->stage, flow->task, index);
    if (operand->parameter != parameter)
        return check_fail(flow->checking, flow->stage, "%s is another parameter's", name);
    flow->work->added[index]++;
    enum parameter_kind kind = block->program->parameters[index].kind;
    if (!flow->stage->script->program->storage[kind].gradient_axes) {
        if (operand->place != PLACE_GRADIENT)
            return check_fail(flow->checking, flow->stage, "%s is not in the state", name);
        return check_first(flow->checking, flow->stage, parameter, operand) &&
               check_use_parameter(flow->checking, flow->stage, flow->stage->gradient_uses,
                                   parameter, true) &&
               check_added(flow->checking, flow->stage,
                           flow->stage->script->parameters[parameter].unit);
    }
    bool is_parted = !schedule_row(flow->checking->program->parallel.schedule)->backward_fused;
    if (is_parted && instr->phase == PHASE_BACKWARD) {
        int value = -1;
        if (operand->bytes != block->program->buffers[operand->buffer].bytes || operand->adds)
            return check_fail(flow->checking, flow->stage, "%s is not written whole", name);
        if (!check_write(flow->checking, flow->stage, operand, &value)) return false;
        flow->work->waiting[index] = 1 + value;
        flow->work->waiting_buffer[index] = operand->buffer;
        return true;
    }
    return write_room(flow, operand, index);
}

static bool write_output(const struct check_flow *flow, int at)
{
    const struct block_program *block = flow->block->program;
    const struct instr *instr = &block->instrs[flow->task->instr];
    const struct script_operand *operand = &flow->task->outputs[at];
    if (operand->buffer != instr->outputs[at])
        return check_fail(flow->checking, flow->stage, "output %d is %s, not %s", at,
                          check_buffer_name(block, operand->buffer),
                          check_buffer_name(block, instr->outputs[at]));
    if (block->buffers[operand->buffer].external) return write_gradient(flow, instr, operand);
    if (operand->adds)
        return check_fail(flow->checking, flow->stage, "%s is added to what is there",
                          check_buffer_name(block, operand->buffer));
    return check_write_version(flow, operand, flow->block->written_version[flow->task->instr][at]);
}

static bool run_instr(const struct check_flow *flow)
{
    const struct block_program *block = flow->block->program;
    const struct script_task *task = flow->task;
    if (task->instr < 0 || task->instr >= block->instr_count)
        return check_fail(flow->checking, flow->stage, "is no instruction of its block");
    const struct instr *instr = &block->instrs[task->instr];
    if (flow->work->is_done[task->instr])
        return check_fail(flow->checking, flow->stage, "is done a second time");
    flow->work->is_done[task->instr] = true;
    flow->stage->done_count++;
    bool is_flat =
        instr->collective && instr->parameter && block->buffers[instr->inputs[0]].tensor < 0;
    if (is_flat) return check_flat_task(flow->checking, flow->stage);
    if (task->input_count != instr->input_count || task->output_count != instr->output_count)
        return check_fail(flow->checking, flow->stage,
                          "has %d inputs and %d outputs, not %d and %d", task->input_count,
                          task->output_count, instr->input_count, instr->output_count);
    if (!check_inner(flow)) return false;
    for (int i = 0; i < instr->input_count; i++) {
        if (!read_input(flow, i)) return false;
    }
    for (int i = 0; i < instr->output_count; i++) {
        if (!write_output(flow, i)) return false;
    }
    return true;
}

static bool has_place(const struct check_stage *stage, const struct script_task *task)
{
    const struct schedule_shape *shape = &stage->script->program->shape;
    return task->chunk >= 0 && task->chunk < shape->chunk_count && task->micro_batch >= 0 &&
           task->micro_batch < shape->micro_batch_count && task->position >= 0 &&
           task->position < stage->block_count[task->chunk] &&
           task->block == stage->block_at[task->chunk][task->position];
}

static bool has_buffers(const struct check_block *block, const struct script_task *task)
{
    for (int i = 0; i < task->input_count + task->output_count; i++) {
        const struct script_operand *operand =
            i < task->input_count ? &task->inputs[i] : &task->outputs[i - task->input_count];
        if (operand->buffer < 0 || operand->buffer >= block->program->buffer_count) return false;
    }
    return true;
}

bool check_flow_task(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    if (!has_place(stage, task)) return check_fail(checking, stage, "is of no block of the stage");
    if (stage->has_norm) return check_fail(checking, stage, "comes behind the gradient norm");
    struct check_flow flow = {checking, stage, task, &checking->blocks[task->block], NULL};
    flow.work = &works_at(&flow, task->chunk)[task->position];
    if (!has_buffers(flow.block, task))
        return check_fail(checking, stage, "has an operand that is no buffer of its block");
    bool is_head = chunk_beside(&flow, task->chunk, 1) < 0 &&
                   checking->program
                               ->spans[stage->script->stage * checking->program->shape.chunk_count +
                                       task->chunk]
                               .first +
                           stage->block_count[task->chunk] ==
                       checking->program->graph->sequence_count;
    switch (task->kind) {
    case TASK_INSTR:
        return run_instr(&flow);
    case TASK_COPY_OUT:
        return check_copy_out(&flow);
    case TASK_COPY_IN:
        return check_copy_in(&flow);
    case TASK_SEND:
        return check_boundary_task(&flow, false);
    case TASK_RECEIVE:
        return check_boundary_task(&flow, true);
    case TASK_SEED:
        if (!is_head || task->slot_kind != TASK_BACKWARD)
            return check_fail(checking, stage, "the loss is not here");
        return check_boundary_task(&flow, true);
    case TASK_LOSS:
        stage->loss_count++;
        if (!is_head || task->slot_kind != TASK_FORWARD)
            return check_fail(checking, stage, "the loss is not here");
        return check_boundary_task(&flow, false);
    default:
        return check_fail(checking, stage, "is of no kind that there is");
    }
}
