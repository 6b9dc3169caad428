#include "plan/lower/lowering.h"

#include <assert.h>

// What is known from the end of the program up to an instruction.
struct ending {
    bool *read;   // by buffer: something that stays reads it
    bool *works;  // by op: it stays, recomputed
};

static bool is_read(const struct instr *instr, const struct ending *ending)
{
    for (int i = 0; i < instr->output_count; i++) {
        if (ending->read[instr->outputs[i]]) return true;
    }
    return false;
}

// Recomputed work stays if something that stays reads a buffer that it writes. An exchange inside
// an op, which stands behind it, goes where the op goes.
static void mark(const struct block_program *program, const struct ending *ending, bool *is_kept)
{
    for (int i = program->instr_count - 1; i >= 0; i--) {
        const struct instr *instr = &program->instrs[i];
        is_kept[i] = !instr->recompute || (instr->inner == 0 && is_read(instr, ending));
        if (!is_kept[i]) continue;
        for (int k = 0; k < instr->input_count; k++)
            ending->read[instr->inputs[k]] = true;
        bool is_work = instr->recompute && instr->collective == COLLECTIVE_NONE;
        if (is_work) ending->works[instr->op] = true;
    }
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->recompute && instr->inner > 0) is_kept[i] = ending->works[instr->op];
    }
}

void lowering_stop_early(struct lowering *low)
{
    struct block_program *program = low->program;
    struct arena_mark before = arena_mark(low->arena);
    struct ending ending = {ARENA_NEW(low->arena, bool, program->buffer_count),
                            ARENA_NEW(low->arena, bool, low->block->op_count)};
    bool *is_kept = ARENA_NEW(low->arena, bool, program->instr_count);
    mark(program, &ending, is_kept);
    int count = 0, phase = 0;
    for (int i = 0; i < program->instr_count; i++) {
        while (phase < PHASE_COUNT && program->phase_first[phase] == i)
            program->phase_first[phase++] = count;
        if (is_kept[i]) program->instrs[count++] = program->instrs[i];
    }
    while (phase < PHASE_COUNT)
        program->phase_first[phase++] = count;
    program->phase_first[PHASE_COUNT] = program->instr_count = count;
    assert(program->phase_first[0] == 0 && program->phase_first[PHASE_WEIGHT] <= count);
    arena_reset(low->arena, before);
}
