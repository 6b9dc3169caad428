#include "executor/engine.h"

// What a back end has no kernel for is said before anything starts. No memory is needed: calls
// carry shapes alone.
bool run_check(struct arena *scratch, const struct backend *backend, const struct script *script,
               const struct graph *graph, int rank, struct err *err)
{
    const struct run_options options = {0};
    const struct run_request request = {
        .backend = backend, .script = script, .graph = graph, .rank = rank, .options = &options};
    struct engine engine = {
        .request = &request,
        .backend = backend,
        .script = script,
        .program = script->program,
        .arena = scratch,
        .scratch = scratch,
        .real_bytes = backend->real_bytes,
        .widen = 1,
        .rank = rank,
        .stage = script->stage,
        .err = err,
    };
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->kind != SCRIPT_INSTR) continue;
        const struct instr *instr = &engine_block(&engine, task)->instrs[task->instr];
        const char *refusal = experts_rule(&engine, t);
        if (refusal) return err_set(err, ERR_USAGE, "%s", refusal);
        if (instr->collective != COLLECTIVE_NONE) continue;
        struct kernel_call call;
        if (!call_make(&engine, t, &call)) return false;
        const char *rule = backend->can_run(&call);
        if (!rule) continue;
        const char *name = script_task_name(scratch, script, t);
        return err_set(err, ERR_USAGE, "the %s back end cannot run %s: %s", backend->name, name,
                       rule);
    }
    return true;
}
