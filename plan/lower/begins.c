#include "plan/lower/lowering.h"

#include <assert.h>

bool instr_adds_rows(const struct block_program *program, const struct instr *instr)
{
    return instr->collective == COLLECTIVE_NONE && instr->kind == OP_GATHER_BACKWARD &&
           program->buffers[instr->outputs[0]].external;
}

bool instr_sums_beside(const struct block_program *program, const struct instr *first)
{
    bool has_product = false, has_sum = false;
    for (int i = 0; i < first->joined; i++) {
        bool is_kept = program->buffers[first[i].outputs[0]].external;
        has_product = has_product || (is_kept && first[i].kind == OP_CONTRACT);
        has_sum = has_sum || (is_kept && first[i].kind == OP_REDUCE);
    }
    return has_product && has_sum;
}

static int parameter_of(const struct block_program *program, const struct instr *instr)
{
    int tensor = program->buffers[instr->outputs[0]].tensor;
    return tensor < 0 ? -1 : program->block->tensors[tensor].gradient_of;
}

bool instr_begins_rows(const struct block_program *program, const struct instr *instr,
                       bool *is_tied)
{
    if (!instr_adds_rows(program, instr)) return false;
    int parameter = parameter_of(program, instr);
    assert(parameter >= 0 && "rows are added to the gradient of a table");
    *is_tied = program->block->tensors[parameter].tie != NULL;
    for (const struct instr *at = program->instrs; at < instr; at++) {
        if (at->collective == COLLECTIVE_NONE && parameter_of(program, at) == parameter)
            return false;
    }
    return true;
}

void lowering_begins(struct lowering *low)
{
    struct block_program *program = low->program;
    if (!joins_are_executed(low->request->joins)) return;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_tied;
        program->begins.added_sums += instr_sums_beside(program, instr);
        if (!instr_begins_rows(program, instr, &is_tied)) continue;
        const struct buffer *table = &program->buffers[instr->outputs[0]];
        *(is_tied ? &program->begins.tied_elements : &program->begins.zeroed_elements) +=
            table->bytes / lowering_element_bytes(low, ELEMENT_COMPUTE);
    }
    program->begins.each_time = lowering_is_sharded(low, 2, PARAMETER_DENSE);
}
