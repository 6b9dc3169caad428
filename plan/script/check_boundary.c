#include "plan/script/checking.h"

// What crosses the boundary of a chunk, and what is moved to the host and back.

// What goes into a slot from outside or out of it.
bool check_boundary_task(const struct check_flow *flow, bool is_in)
{
    const struct script_task *task = flow->task;
    const struct block_program *block = flow->block->program;
    bool is_forward = task->slot_kind == TASK_FORWARD;
    bool is_low = is_forward == is_in;
    const int *buffers = is_forward ? (is_in ? block->inputs : block->outputs)
                                    : (is_in ? block->output_gradients : block->input_gradients);
    int last = flow->stage->block_count[task->chunk] - 1, at = 0;
    int count = is_in ? task->output_count : task->input_count;
    if (task->position != (is_low ? 0 : last))
        return check_fail(flow->checking, flow->stage, "is not at the boundary of its chunk");
    for (int k = 0; k < BLOCK_EDGES; k++) {
        if (buffers[k] < 0) continue;
        const struct script_operand *operand =
            at < count ? is_in ? &task->outputs[at] : &task->inputs[at] : NULL;
        if (!operand || operand->buffer != buffers[k])
            return check_fail(flow->checking, flow->stage, "lacks %s",
                              check_buffer_name(block, buffers[k]));
        at++;
        int version = is_in        ? 0
                      : is_forward ? flow->block->output_version[k]
                                   : flow->block->input_gradient_version[k];
        int value =
            is_in ? -1 : check_value_of(flow, task->chunk, task->position, buffers[k], version);
        bool is_right = is_in ? check_write_version(flow, operand, 0)
                              : check_read(flow->checking, flow->stage, operand, value, NULL);
        if (!is_right) return false;
    }
    return at == count || check_fail(flow->checking, flow->stage, "has operands too many");
}

bool check_copy_out(const struct check_flow *flow)
{
    const struct script_task *task = flow->task;
    int wanted = 0;
    for (int b = 0; b < flow->block->program->buffer_count; b++)
        wanted += check_is_moved(flow, b);
    if (flow->work->moved_out || task->input_count != wanted)
        return check_fail(flow->checking, flow->stage, "moves %d tensors, wanted %d once",
                          task->input_count, wanted);
    flow->work->moved_out = ARENA_NEW(flow->checking->arena, int, wanted);
    flow->work->left_with = flow->stage->next;
    for (int i = 0; i < wanted; i++) {
        const struct script_operand *operand = &task->inputs[i];
        bool is_again = false;
        for (int k = 0; k < i; k++)
            is_again = is_again || flow->work->moved_out[k] == operand->buffer;
        if (is_again || !check_is_moved(flow, operand->buffer))
            return check_fail(flow->checking, flow->stage, "%s is not to be moved, or twice",
                              check_buffer_name(flow->block->program, operand->buffer));
        flow->work->moved_out[i] = operand->buffer;
        int value = check_read_value(flow, operand->buffer,
                                     flow->block->forward_version[operand->buffer], false);
        if (!check_read(flow->checking, flow->stage, operand, value, NULL)) return false;
    }
    return true;
}

bool check_copy_in(const struct check_flow *flow)
{
    const struct script_task *task = flow->task;
    if (!flow->work->moved_out)
        return check_fail(flow->checking, flow->stage, "nothing has been moved out");
    if (!check_follows(flow->checking, flow->stage, flow->work->left_with)) return false;
    for (int i = 0; i < task->output_count; i++) {
        const struct script_operand *operand = &task->outputs[i];
        int value, *moved = &flow->work->moved[operand->buffer];
        if (operand->buffer != flow->work->moved_out[i] || *moved ||
            operand->bytes != flow->block->program->buffers[operand->buffer].bytes)
            return check_fail(flow->checking, flow->stage, "%s does not come back as it left",
                              check_buffer_name(flow->block->program, operand->buffer));
        if (!check_write(flow->checking, flow->stage, operand, &value)) return false;
        *moved = 1 + value;
    }
    return true;
}
