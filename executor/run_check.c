#include "executor/engine/engine.h"
#include "executor/engine/expert_rows.h"
#include "models/op_scan.h"
#include "plan/unexecuted.h"

#include <assert.h>

// Rows are told apart by these dims, and moved as reals.
static bool are_rows(const struct tensor *tensor)
{
    return tensor->rank == ROWS_RANK && tensor->extents[ROWS_BATCH].dim == DIM_BATCH &&
           tensor->extents[ROWS_SEQ].dim == DIM_SEQ &&
           tensor->extents[ROWS_EXPERT].dim == DIM_EXPERT && tensor->element == ELEMENT_COMPUTE;
}

bool run_check_program(const struct program *program, struct err *err)
{
    if (!unexecuted_check(&program->workload, &program->parallel, err)) return false;
    if (!unexecuted_check_graph(program->graph, NULL, err) ||
        !unexecuted_check_positions(program->graph, program->workload.seq_len, err))
        return false;
    for (int b = 0; b < program->block_count; b++) {
        const struct block *block = program->blocks[b]->block;
        for (int t = 0; t < block->tensor_count; t++) {
            const struct tensor *tensor = &block->tensors[t];
            if (tensor->density <= 0) continue;
            if (are_rows(tensor)) continue;
            return err_set(err, ERR_USAGE, "%s: rows of experts want (batch, seq, expert, ...)",
                           tensor->name);
        }
    }
    return true;
}

bool run_check_nvme(const struct program *program, const char *folder, struct err *err)
{
    const struct offload *offload = &program->parallel.offload;
    bool moves_states = offload->optimizer == TIER_NVME;
    bool moves_weights = offload->parameters == TIER_NVME;
    if (folder || !offload_reaches_nvme(offload)) return true;
    return err_set(err, ERR_USAGE, "--nvme DIR is missing: the plan keeps %s on NVMe",
                   moves_states    ? "optimizer states"
                   : moves_weights ? "parameters"
                                   : "activations");
}

bool run_check_data(const struct graph *graph, enum run_data data, struct err *err)
{
    assert(graph->sequence_count > 0 && graph->sequence[0] < graph->block_count);
    enum { BYTES = 256 };
    const struct block *first = &graph->blocks[graph->sequence[0]];
    for (int t = 0; t < first->tensor_count && data != DATA_SYNTHETIC; t++) {
        bool is_picture =
            first->tensors[t].role == TENSOR_IDS && first->tensors[t].element == ELEMENT_COMPUTE;
        if (is_picture)
            return err_set(err, ERR_USAGE,
                           "--data: %s reads pictures or sound, which are drawn; leave it out",
                           graph->name);
    }
    if (graph->frames > 0 && data != DATA_SYNTHETIC)
        return err_set(err, ERR_USAGE,
                       "--data: a run of a video model draws its latents; leave it out");
    if (data != DATA_TEXT || graph->vocab >= BYTES) return true;
    return err_set(err, ERR_USAGE,
                   "--data text: a token a byte needs a vocabulary of %d, the model has %lld",
                   BYTES, (long long)graph->vocab);
}

bool run_check_documents(const struct backend *backend, const struct program *program,
                         struct err *err)
{
    if (!backend->masks_documents)
        return err_set(err, ERR_USAGE,
                       "--mask-documents: attention of back end %s has no such mask",
                       backend->name);
    for (int b = 0; b < program->block_count; b++) {
        const struct block *block = program->blocks[b]->block;
        for (int i = 0; i < block->op_count; i++) {
            const struct op *op = &block->ops[i];
            bool attends = op->kind == OP_ATTENTION || op->kind == OP_SOFTMAX;
            if (op_mixes_tokens(op->kind) || op->kind == OP_POOL)
                return err_set(err, ERR_USAGE,
                               "--mask-documents: %s remembers the tokens of other documents, "
                               "attention alone is masked",
                               op->name);
            if (attends && (!op->causal || op->prefix > 0))
                return err_set(err, ERR_USAGE,
                               "--mask-documents: %s looks ahead, causal attention alone is masked",
                               op->name);
        }
    }
    return true;
}

// fp8 and fp4 are formats of GEMMs: who has none would run another precision than was
// planned and priced.
static bool check_precision(const struct backend *backend, enum precision precision,
                            struct err *err)
{
    bool has_none =
        (precision == PRECISION_FP8 && !backend->is_low_precision) || precision == PRECISION_FP4;
    if (!has_none) return true;
    return err_set(err, ERR_USAGE, "--precision %s: back end %s runs no GEMMs in it",
                   precision_name(precision), backend->name);
}

// What a back end has no kernel for is said before anything starts. No memory is needed: calls
// carry shapes alone.
bool run_check(struct arena *scratch, const struct backend *backend, const struct script *script,
               const struct graph *graph, int rank, struct err *err)
{
    if (!run_check_program(script->program, err)) return false;
    if (!check_precision(backend, script->program->workload.precision, err)) return false;
    if (script->program->order.half > 0 && !(backend->joins >> JOIN_HALVES & 1))
        return err_set(err, ERR_USAGE,
                       "the plan's ranks have early and late halves of a sequence, and back end %s "
                       "attends to slices in order alone: plan for its own stack",
                       backend->name);
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
        if (task->kind != TASK_INSTR) continue;
        const struct instr *instr = &engine_block(&engine, task)->instrs[task->instr];
        if (instr->collective != COLLECTIVE_NONE) continue;
        struct kernel_call call;
        if (!call_make(&engine, t, &call)) return false;
        const char *rule = backend->can_run(&call);
        assert((!rule || *rule) && "a refusal says why");
        if (!rule) continue;
        const char *name = script_task_name(scratch, script, t);
        return err_set(err, ERR_USAGE, "the %s back end cannot run %s: %s", backend->name, name,
                       rule);
    }
    return true;
}
