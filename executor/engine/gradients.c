#include "executor/engine/engine.h"

// Gradients before a step. GEMMs add to them, but the first to touch one writes it where it
// covers all of it; only the others are cleared, which for large models is a pass over memory the
// less, and one less where it is added.

enum { DEAD_BYTE = 0xFF };

// Tied parameters of one stage have one gradient.
static int stored_at(const struct engine *engine, int parameter)
{
    int same_as = engine->script->parameters[parameter].same_as;
    return same_as < 0 ? parameter : same_as;
}

// An operator that runs in one go, and not on rows that may be missing.
static bool is_simple(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (of->kind != TASK_INSTR || ring_is(engine, task)) return false;
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    if (instr->collective != COLLECTIVE_NONE || instr->inner > 0) return false;
    const struct op *op = &block->block->ops[instr->op];
    for (int i = 0; i < op->input_count; i++) {
        if (block->block->tensors[op->inputs[i]].density > 0) return false;
    }
    return true;
}

static bool covers(struct engine *engine, const struct script_task *task,
                   const struct script_operand *operand)
{
    const struct block_program *block = engine_block(engine, task);
    int64_t elements = engine->script->parameters[operand->parameter].elements;
    struct held held = held_of_buffer(engine->program, block, operand->buffer, engine->rank);
    struct state_part part = state_part_of(engine, operand->parameter, STATE_GRADIENTS);
    return part.count == elements && held.elements == elements;
}

static int bucket_of(const struct engine *engine, int stored)
{
    const struct script *script = engine->script;
    return script->units[script->parameters[stored].unit].bucket;
}

struct touching {
    bool *is_touched;  // [parameter]
    bool *is_entered;  // [bucket]: its room
};

// The first touch of a gradient that nobody has touched yet.
static void touch(struct engine *engine, struct touching *touching, int task,
                  const struct script_operand *at, int output)
{
    bool *is_touched = touching->is_touched;
    const struct script_task *of = &engine->script->tasks[task];
    if (at->place != PLACE_GRADIENT || at->parameter < 0) return;
    // Flat operands are of all parameters of a unit.
    const struct script_unit *unit =
        &engine->script->units[engine->script->parameters[at->parameter].unit];
    int first = at->buffer < 0 ? unit->first_parameter : at->parameter;
    int count = at->buffer < 0 ? unit->parameter_count : 1;
    bool writes = count == 1 && output >= 0 && at->buffer >= 0 && at->adds &&
                  is_simple(engine, task) && covers(engine, of, at);
    for (int p = first; p < first + count; p++) {
        int stored = stored_at(engine, p), bucket = bucket_of(engine, stored);
        if (is_touched[stored]) continue;
        is_touched[stored] = true;
        bool has_room = engine->script->buckets[bucket].room >= 0;
        if (has_room && !touching->is_entered[bucket]) engine->prepared[task].clears = 1 + bucket;
        touching->is_entered[bucket] = true;
        engine->is_written[stored] = writes;
        if (writes) engine->prepared[task].writes |= 1u << output;
    }
}

void gradients_prepare(struct engine *engine)
{
    const struct script *script = engine->script;
    struct touching touching = {ARENA_NEW(engine->arena, bool, script->parameter_count + 1),
                                ARENA_NEW(engine->arena, bool, script->bucket_count + 1)};
    engine->is_written = ARENA_NEW(engine->arena, bool, script->parameter_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->input_count; i++)
            touch(engine, &touching, t, &task->inputs[i], -1);
        for (int i = 0; i < task->output_count; i++)
            touch(engine, &touching, t, &task->outputs[i], i);
    }
}

// With --poison what is to be written first is NaN until then.
static bool clear(struct engine *engine, int task, int parameter)
{
    bool is_written = engine->is_written[parameter];
    if (is_written && !engine->request->options->poison) return true;
    enum stream stream = task < 0 ? STREAM_COMPUTE : engine->script->tasks[task].stream;
    struct state_part part = state_part_of(engine, parameter, STATE_GRADIENTS);
    char *at = engine->state.gradients + part.at * engine->real_bytes;
    const char *fault = engine->backend->fill(
        engine->device, stream, at, is_written ? DEAD_BYTE : 0, part.count * engine->real_bytes);
    return engine_ok(engine, task, fault);
}

bool gradients_start(struct engine *engine)
{
    for (int p = 0; p < engine->script->parameter_count; p++) {
        if (stored_at(engine, p) != p) continue;
        bool has_room = engine->script->buckets[bucket_of(engine, p)].room >= 0;
        if (!has_room && !clear(engine, -1, p)) return false;
    }
    return true;
}

bool gradients_enter(struct engine *engine, int task)
{
    int bucket = engine->prepared[task].clears - 1;
    for (int p = 0; p < engine->script->parameter_count && bucket >= 0; p++) {
        if (stored_at(engine, p) != p || bucket_of(engine, p) != bucket) continue;
        if (!clear(engine, task, p)) return false;
    }
    return true;
}
