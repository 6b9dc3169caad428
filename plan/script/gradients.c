#include "plan/script/script.h"

#include <assert.h>

// Who writes a gradient first. Memory for gradients holds what an earlier step, another bucket or
// other values of the arena left there, and nobody clears it: the first task of a step that makes a
// parameter's gradient writes it, and all others add. The same of a parameter's part of a room,
// which lives within one slot.

struct begun {
    struct script *script;
    bool *state;  // [parameter] that is stored
    int *rooms;   // [parameter]: 1 + the last slot in which there was something in its room
};

static int stored_at(const struct script *script, int parameter)
{
    assert(parameter >= 0 && parameter < script->parameter_count);
    int same_as = script->parameters[parameter].same_as;
    return same_as < 0 ? parameter : same_as;
}

static void begin_state(const struct begun *begun, const struct script_task *task,
                        struct script_operand *operand)
{
    const struct script *script = begun->script;
    bool is_unit = task->unit >= 0;
    const struct script_unit *unit = &script->units[script->parameters[operand->parameter].unit];
    int first = is_unit ? unit->first_parameter : operand->parameter;
    int count = is_unit ? unit->parameter_count : 1;
    operand->adds = begun->state[stored_at(script, first)];
    for (int p = first; p < first + count; p++)
        begun->state[stored_at(script, p)] = true;
}

static void begin_room(const struct begun *begun, const struct script_task *task,
                       struct script_operand *operand)
{
    assert(operand->parameter >= 0 && "a part of a room is a parameter's");
    int *slot = &begun->rooms[operand->parameter];
    operand->adds = *slot == 1 + task->slot;
    *slot = 1 + task->slot;
}

void script_add_firsts(struct script *script)
{
    struct arena scratch = {0};
    const struct begun begun = {script, ARENA_NEW(&scratch, bool, script->parameter_count + 1),
                                ARENA_NEW(&scratch, int, script->parameter_count + 1)};
    for (int t = 0; t < script->task_count; t++) {
        struct script_task *task = &script->tasks[t];
        bool scatters =
            task->unit >= 0 && task->output_count > 0 && task->outputs[0].place == PLACE_GRADIENT;
        // What waited for its room goes into it behind what is there.
        for (int i = 1; i < task->input_count && scatters; i++)
            begin_room(&begun, task, &task->inputs[i]);
        for (int i = 0; i < task->output_count; i++) {
            struct script_operand *operand = &task->outputs[i];
            if (operand->place == PLACE_GRADIENT) begin_state(&begun, task, operand);
            if (operand->place == PLACE_ARENA && operand->adds) begin_room(&begun, task, operand);
        }
    }
    arena_free(&scratch);
}
