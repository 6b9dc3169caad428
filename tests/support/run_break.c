#include "tests/support/run_case.h"
#include "tests/support/test.h"

// Values made by an instruction and read by another one of the same slot.
static bool finds_reader(const struct script *script, int task, struct script_operand **read)
{
    const struct script_task *of = &script->tasks[task];
    if (of->kind != TASK_INSTR || of->output_count == 0) return false;
    const struct script_operand *made = &of->outputs[0];
    if (made->place != PLACE_ARENA || made->adds) return false;
    // One GEMM for several says itself that its operands lie elsewhere.
    const struct instr *instr = &script->program->blocks[of->block]->instrs[of->instr];
    if (instr->merge) return false;
    for (int t = task + 1; t < script->task_count && script->tasks[t].slot == of->slot; t++) {
        const struct script_task *other = &script->tasks[t];
        for (int i = 0; i < other->input_count && other->kind == TASK_INSTR; i++) {
            *read = &other->inputs[i];
            bool is_it = (*read)->place == PLACE_ARENA && (*read)->offset == made->offset &&
                         (*read)->buffer == made->buffer && other->position == of->position;
            const struct block_program *block = script->program->blocks[other->block];
            if (is_it && !block->instrs[other->instr].merge) return true;
        }
    }
    return false;
}

static struct script_operand *find_first(const struct script *script, int number)
{
    struct script_operand *found = NULL;
    for (int t = 0, count = 0; t < script->task_count && count <= number; t++) {
        for (int i = 0; i < script->tasks[t].output_count; i++) {
            struct script_operand *operand = &script->tasks[t].outputs[i];
            bool is_it = operand->place == PLACE_GRADIENT && !operand->adds;
            if (is_it && count++ <= number) found = operand;
        }
    }
    assert_non_null(found);
    return found;
}

void run_case_break(const struct run_case *of, struct script *script)
{
    enum { CANDIDATES_MAX = 1024, ALIGNMENT = 64 };
    int candidates[CANDIDATES_MAX];
    int count = 0;
    struct script_operand *read;
    if (of->broken == BREAK_FIRST) {
        find_first(script, of->broken_number)->adds = true;
        return;
    }
    for (int t = 0; t < script->task_count && count < CANDIDATES_MAX; t++) {
        if (finds_reader(script, t, &read)) candidates[count++] = t;
    }
    assert_true(count > 0);
    int task = candidates[of->broken_number % count];
    assert_true(finds_reader(script, task, &read));
    struct script_operand *written = &script->tasks[task].outputs[0];
    struct script_operand *broken = of->broken == BREAK_READ ? read : written;
    broken->offset = script->arena_bytes;
    if (of->broken == BREAK_READ)
        script->arena_bytes += (written->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}
