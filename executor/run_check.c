#include "executor/engine.h"
#include "executor/expert_rows.h"

// Rows are told apart by these dims, and moved as reals.
static bool are_rows(const struct tensor *tensor)
{
    return tensor->rank == ROWS_RANK && tensor->extents[ROWS_BATCH].dim == DIM_BATCH &&
           tensor->extents[ROWS_SEQ].dim == DIM_SEQ &&
           tensor->extents[ROWS_EXPERT].dim == DIM_EXPERT && tensor->element == ELEMENT_COMPUTE;
}

// With a capacity lowering counts rows, but which tokens find no place in them depends on who
// shares an expert's rows, and so would the losses.
bool run_check_program(const struct program *program, struct err *err)
{
    double factor = program->workload.capacity_factor;
    const struct offload *offload = &program->parallel.offload;
    if (offload->optimizer != TIER_DEVICE)
        return err_set(err, ERR_USAGE, "--offload optimizer@%s: a run updates on the device",
                       tier_name(offload->optimizer));
    if (offload_moves_activations(offload) && offload->activations != TIER_HOST)
        return err_set(err, ERR_USAGE,
                       "--offload activations@%s: a run moves them to the host only",
                       tier_name(offload->activations));
    for (int b = 0; b < program->block_count; b++) {
        const struct block *block = program->blocks[b]->block;
        for (int t = 0; t < block->tensor_count; t++) {
            const struct tensor *tensor = &block->tensors[t];
            if (tensor->density <= 0) continue;
            if (factor > 0)
                return err_set(err, ERR_USAGE,
                               "--capacity-factor %g: which tokens have no room would depend on "
                               "the plan; a run drops none: only 0 works",
                               factor);
            if (are_rows(tensor)) continue;
            return err_set(err, ERR_USAGE, "%s: rows of experts want (batch, seq, expert, ...)",
                           tensor->name);
        }
    }
    return true;
}

bool run_check_data(const struct graph *graph, enum run_data data, struct err *err)
{
    enum { BYTES = 256 };
    if (data != DATA_TEXT || graph->vocab >= BYTES) return true;
    return err_set(err, ERR_USAGE,
                   "--data text: a token a byte needs a vocabulary of %d, the model has %lld",
                   BYTES, (long long)graph->vocab);
}

// What a back end has no kernel for is said before anything starts. No memory is needed: calls
// carry shapes alone.
bool run_check(struct arena *scratch, const struct backend *backend, const struct script *script,
               const struct graph *graph, int rank, struct err *err)
{
    if (!run_check_program(script->program, err)) return false;
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
        .compute_bytes = backend->compute_bytes,
        .widen = 1,
        .rank = rank,
        .stage = script->stage,
        .err = err,
    };
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->kind != SCRIPT_INSTR) continue;
        const struct instr *instr = &engine_block(&engine, task)->instrs[task->instr];
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
