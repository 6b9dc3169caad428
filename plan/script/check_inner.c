#include "plan/script/checking.h"

// Exchanges inside an operator: what it makes is whole when the last of them is done.

// A gradient that the operator around an exchange makes: nobody has taken it yet.
static bool add_again(const struct check_flow *flow, int buffer)
{
    const struct check_block *block = flow->block;
    int index = check_gradient_of(block, block->program->buffers[buffer].tensor);
    if (index >= 0) flow->work->added[index]++;
    enum parameter_kind kind = index < 0 ? PARAMETER_DENSE : block->program->parameters[index].kind;
    if (index < 0 || flow->stage->script->program->storage[kind].gradient_axes) return true;
    int parameter = check_parameter(flow->stage, flow->task, index);
    int unit = flow->stage->script->parameters[parameter].unit;
    return check_use_parameter(flow->checking, flow->stage, flow->stage->gradient_uses, parameter,
                               true) &&
           check_added(flow->checking, flow->stage, unit);
}

// The operator around an exchange reads and writes on when it is done.
static bool check_around(const struct check_flow *flow)
{
    const struct block_program *block = flow->block->program;
    const struct instr *instr = &block->instrs[flow->task->instr];
    if (instr->collective != COLLECTIVE_ALL_REDUCE || instr->inner == 0) return true;
    int around = flow->block->inner_op[flow->task->instr];
    const struct instr *op = &block->instrs[around];
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        bool is_output = i >= op->input_count;
        int k = is_output ? i - op->input_count : i;
        int buffer = is_output ? op->outputs[k] : op->inputs[k];
        int version = is_output ? flow->block->written_version[around][k]
                                : flow->block->read_version[around][k];
        if (block->buffers[buffer].external) {
            if (is_output && !add_again(flow, buffer)) return false;
            continue;
        }
        int value = check_read_value(flow, buffer, version, op->phase != PHASE_FORWARD);
        if (value < 0) return check_fail(flow->checking, flow->stage, "stands before its operator");
        struct check_value *of = &flow->stage->values[value];
        int left = of->exchanges_left;
        struct script_operand operand = {.place = PLACE_ARENA,
                                         .buffer = buffer,
                                         .parameter = -1,
                                         .offset = of->offset,
                                         .bytes = of->bytes};
        of->exchanges_left = 0;
        if (!check_read(flow->checking, flow->stage, &operand, value, NULL)) return false;
        of->exchanges_left = left - is_output;
        if (is_output && !check_use_bytes(flow->checking, flow->stage, operand.offset,
                                          operand.offset + operand.bytes, true))
            return false;
    }
    return true;
}

// Exchanges inside an operator come one after the other, behind it.
static bool check_order(const struct check_flow *flow)
{
    const struct block_program *block = flow->block->program;
    const struct instr *instr = &block->instrs[flow->task->instr];
    if (instr->inner == 0) return true;
    for (int i = flow->block->inner_op[flow->task->instr]; i < flow->task->instr; i++) {
        const struct instr *other = &block->instrs[i];
        bool is_before = other->op == instr->op && (!other->collective || other->inner > 0);
        if (is_before && !flow->work->is_done[i])
            return check_fail(flow->checking, flow->stage, "stands before what it is part of");
    }
    return true;
}

bool check_inner(const struct check_flow *flow)
{
    return check_order(flow) && check_around(flow);
}
