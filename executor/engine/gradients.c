#include "executor/engine/engine.h"

#include <assert.h>

// Gradients of a step. Their memory holds whatever was there before: the script says who writes one
// first, and all others add. With --poison what nobody has written yet is NaN.

enum { DEAD_BYTE = 0xFF };

static int bucket_of(const struct engine *engine, int parameter)
{
    const struct script *script = engine->script;
    int same_as = script->parameters[parameter].same_as;
    return script->units[script->parameters[same_as < 0 ? parameter : same_as].unit].bucket;
}

void gradients_prepare(struct engine *engine)
{
    const struct script *script = engine->script;
    bool *is_entered = ARENA_NEW(engine->arena, bool, script->bucket_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->output_count; i++) {
            if (task->outputs[i].place != PLACE_GRADIENT) continue;
            int bucket = bucket_of(engine, task->outputs[i].parameter);
            bool has_room = script->buckets[bucket].room >= 0;
            if (has_room && !is_entered[bucket]) engine->prepared[t].enters = 1 + bucket;
            is_entered[bucket] = true;
        }
    }
}

static bool fill(struct engine *engine, int task, char *at, int byte, int64_t bytes)
{
    enum stream stream = task < 0 ? STREAM_COMPUTE : engine->script->tasks[task].stream;
    return engine_ok(engine, task, engine->backend->fill(engine->device, stream, at, byte, bytes));
}

bool gradients_start(struct engine *engine)
{
    const struct state *state = &engine->state;
    return !engine->request->options->poison || fill(engine, -1, state->gradients, DEAD_BYTE,
                                                     state->gradient_count * engine->real_bytes);
}

// A room that another bucket had before.
static bool enter(struct engine *engine, int task)
{
    const struct script *script = engine->script;
    int entered = engine->prepared[task].enters - 1;
    if (entered < 0 || !engine->request->options->poison) return true;
    const struct script_bucket *bucket = &script->buckets[entered];
    for (int i = 0; i < bucket->unit_count; i++) {
        int64_t count = state_unit_part(engine, bucket->units[i], STATE_GRADIENTS).count;
        char *at = engine->state.gradients +
                   engine->state.gradient_at[bucket->units[i]] * engine->real_bytes;
        if (!fill(engine, task, at, DEAD_BYTE, count * engine->real_bytes)) return false;
    }
    return true;
}

bool gradients_zero_rest(struct engine *engine, int task, const struct script_operand *operand,
                         char *written)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    int64_t elements = engine->script->parameters[operand->parameter].elements;
    struct held held = held_of_buffer(engine->program, block, operand->buffer, engine->rank);
    int64_t width = engine_element_bytes(engine, engine_element(engine, of, operand));
    assert(held.elements <= elements);
    return held.elements == elements || fill(engine, task, written + held.elements * width, 0,
                                             (elements - held.elements) * width);
}

bool gradients_begin(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (!enter(engine, task)) return false;
    for (int i = 0; i < of->output_count && of->kind == TASK_INSTR && of->unit < 0; i++) {
        const struct script_operand *operand = &of->outputs[i];
        if (operand->adds || operand->parameter < 0) continue;
        if (!gradients_zero_rest(engine, task, operand, engine_address(engine, of, operand)))
            return false;
    }
    return true;
}
