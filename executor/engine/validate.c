#include "executor/engine/engine.h"

#include <assert.h>

// The loss of held-out sequences: the forward tasks of a step, on the same ranks in the same
// layouts, without dropout; nothing is sent backwards, no gradient made, no weight touched.
//
// A script says of the waits between streams as few as say all, some by way of backward tasks that
// do not run here: streams are settled between slots instead. Copies to the host are of what
// backward will want.

static bool is_forward(const struct script_task *task)
{
    if (task->slot < 0 || task->slot_kind != TASK_FORWARD) return false;
    switch (task->kind) {
    case TASK_INSTR:
    case TASK_SEND:
    case TASK_RECEIVE:
    case TASK_LOSS:
    case TASK_ROOM:
        return true;
    default:
        return false;
    }
}

static bool run_forward(struct engine *engine, forward_see *see, void *context)
{
    int slot = -1;
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct script_task *task = &engine->script->tasks[t];
        if (!is_forward(task)) continue;
        if (task->slot != slot && !streams_settle(engine)) return false;
        slot = task->slot;
        engine_beat(engine, t);
        struct arena_mark mark = arena_mark(engine->scratch);
        bool done = streams_begin(engine, t) && (!see || see(engine, t, context)) &&
                    task_run(engine, t) && streams_end(engine, t);
        arena_reset(engine->scratch, mark);
        if (!done) return false;
    }
    return streams_settle(engine);
}

bool forward_run(struct engine *engine, forward_see *see, void *context)
{
    engine->is_validating = true;
    bool done = streams_settle(engine) && run_forward(engine, see, context);
    engine->is_validating = false;
    return done;
}

bool validate(struct engine *engine, double *loss)
{
    const struct run_options *options = engine->request->options;
    assert(options->validate_batches > 0);
    double training_sum = engine->loss_sum;
    engine->loss_sum = 0;
    engine->is_validating = true;
    bool done = true;
    for (int batch = 0; done && batch < options->validate_batches; batch++) {
        done = data_held_out(engine, batch) && streams_settle(engine) &&
               run_forward(engine, NULL, NULL);
        if (done) task_add_losses(engine);
    }
    engine->is_validating = false;
    *loss = engine->loss_sum / engine_step_tokens(engine) / options->validate_batches;
    engine->loss_sum = training_sum;
    return done && engine_ok(engine, -1, engine->transport->host_sum(engine->world, loss, 1));
}
