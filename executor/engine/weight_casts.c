#include "executor/engine/engine.h"

#include <assert.h>

// Weights in 8 bits: bytes as they lie, the same turned, and a factor of each. In the order of the
// parameters, which is that of their places in a unit: those that are one product's stand one
// behind another, as the weights themselves do. Whole sixteens on both sides of each keep all of
// them at multiples of 16 bytes.

struct weight_casts {
    int64_t *at;    // [parameter]: bytes into either; -1: not cast
    int *factor;    // [parameter]
    bool *makes;    // [task]
    int64_t bytes;  // of either
    int factor_count;
    char *memory;  // as they lie, turned, factors
};

// The parameter whose cast a task reads; -1.
static int parameter_of(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (of->kind != TASK_INSTR) return -1;
    const struct instr *instr = &engine_block(engine, of)->instrs[of->instr];
    return instr->weight_cast ? of->inputs[instr->weight_cast - 1].parameter : -1;
}

// All that use the compute stream in the order of the script: the first of a step that reads a
// weight makes its cast, in a pass over held-out data as well.
static void find_makers(const struct engine *engine, struct weight_casts *casts)
{
    for (int t = 0; t < engine->script->task_count; t++) {
        int parameter = parameter_of(engine, t);
        if (parameter < 0) continue;
        casts->makes[t] = casts->at[parameter] < 0;
        casts->at[parameter] = 0;
    }
}

bool weight_casts_open(struct engine *engine)
{
    const struct script *script = engine->script;
    struct weight_casts *casts = ARENA_NEW(engine->arena, struct weight_casts, 1);
    engine->weight_casts = casts;
    casts->at = ARENA_NEW(engine->arena, int64_t, script->parameter_count + 1);
    casts->factor = ARENA_NEW(engine->arena, int, script->parameter_count + 1);
    casts->makes = ARENA_NEW(engine->arena, bool, script->task_count + 1);
    for (int p = 0; p < script->parameter_count; p++)
        casts->at[p] = -1;
    find_makers(engine, casts);
    for (int p = 0; p < script->parameter_count; p++) {
        if (casts->at[p] < 0) continue;
        casts->at[p] = casts->bytes;
        casts->bytes += script->parameters[p].elements;
        casts->factor[p] = casts->factor_count++;
    }
    assert(casts->bytes == script_weight_cast_elements(script));
    if (casts->bytes == 0) return true;
    int64_t factor_bytes = casts->factor_count * (int64_t)sizeof(float);
    void *memory = NULL;
    const char *fault =
        engine->backend->allocate(engine->device, 2 * casts->bytes + factor_bytes, &memory);
    casts->memory = memory;
    engine->staging_bytes += factor_bytes;
    engine->beside_bytes += factor_bytes;
    return engine_ok(engine, -1, fault);
}

void weight_casts_close(struct engine *engine)
{
    if (engine->weight_casts && engine->weight_casts->memory)
        engine->backend->release(engine->device, engine->weight_casts->memory);
}

int64_t weight_casts_bytes(const struct engine *engine)
{
    return 2 * engine->weight_casts->bytes;
}

void weight_casts_show(const struct engine *engine, int task, struct kernel_call *call)
{
    const struct weight_casts *casts = engine->weight_casts;
    const struct script_task *of = &engine->script->tasks[task];
    int parameter = casts ? parameter_of(engine, task) : -1;
    if (parameter < 0 || !casts->memory) return;
    uint8_t *bytes = (uint8_t *)casts->memory;
    float *factors = (float *)(void *)(casts->memory + 2 * casts->bytes);
    call->weight_cast = (struct kernel_weight_cast){
        .input = engine_block(engine, of)->instrs[of->instr].weight_cast - 1,
        .rows = bytes + casts->at[parameter],
        .turned = bytes + casts->bytes + casts->at[parameter],
        .factor = factors + casts->factor[parameter],
        .makes = casts->makes[task],
    };
}
