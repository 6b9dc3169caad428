#include "executor/calibrate/calibrate.h"

#include "executor/engine/held.h"

// The GEMMs and the attention of one plan's blocks, as one of its ranks runs them: what lies
// between them needs other ranks, and is priced well by the memory that it moves.

// Rows of experts and keys that come round a ring are not all there, or not at once.
static bool is_kernel(const struct block_program *program, const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE || instr->ragged) return false;
    for (int i = 0; i < instr->input_count; i++) {
        if (program->buffers[instr->inputs[i]].tensor < 0) return false;
    }
    switch (instr->kind) {
    case OP_CONTRACT:
        return true;
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return instr->seq == instr->kv_seq;
    default:
        return false;
    }
}

bool calibrate_is_measured(const struct calibrate_block *block, const struct instr *instr)
{
    return block->plan ? is_kernel(block->program, instr) : instr->collective == COLLECTIVE_NONE;
}

void calibrate_block_count(struct calibrate_block *block)
{
    for (int i = 0; i < block->program->instr_count; i++) {
        if (!calibrate_is_measured(block, &block->program->instrs[i])) continue;
        block->row_count++;
        block->flop += block->program->instrs[i].flop;
    }
}

int calibrate_plan_blocks(const struct calibrate_request *request,
                          const struct calibrate_side *side, struct calibrate_block *blocks)
{
    const struct program *plan = request->plan;
    if (!plan || plan->workload.precision != side->precision) return 0;
    int count = 0;
    for (int b = 0; b < plan->block_count; b++) {
        struct calibrate_block block = {
            .program = plan->blocks[b],
            .plan = plan,
            .batch = (int64_t)plan->parallel.micro_batch * plan->parallel.degree[AXIS_DP],
            .seq = plan->workload.seq_len,
            .vocab = plan->graph->vocab,
            .head_count = plan->graph->head_count,
            .begins_subject = count == 0,
        };
        calibrate_block_count(&block);
        if (block.row_count > 0) blocks[count++] = block;
    }
    return count;
}

int calibrate_array_count(const struct calibrate_block *block)
{
    return block->plan ? block->program->buffer_count : block->program->block->tensor_count;
}

static bool has(const int *buffers, int count, int wanted)
{
    for (int i = 0; i < count; i++) {
        if (buffers[i] == wanted) return true;
    }
    return false;
}

bool calibrate_is_needed(const struct calibrate_block *block, int array)
{
    const struct block_program *program = block->program;
    if (!block->plan) return true;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!is_kernel(program, instr)) continue;
        if (has(instr->inputs, instr->input_count, array) ||
            has(instr->outputs, instr->output_count, array))
            return true;
    }
    return false;
}

const struct tensor *calibrate_tensor(const struct calibrate_block *block, int array)
{
    const struct block_program *program = block->program;
    return &program->block->tensors[block->plan ? program->buffers[array].tensor : array];
}

void calibrate_hold(const struct calibrate_block *block, int buffer, struct kernel_array *array)
{
    if (!block->plan) return;
    struct held held = held_of_buffer(block->plan, block->program, buffer, 0);
    for (int i = 0; i < array->rank; i++) {
        array->sizes[i] = held.count[i];
        array->first[i] = held.first[i];
    }
}

// Of the array that stands for operand `number`, with the operator's own names for its dims.
static struct kernel_array seen_as(const struct calibrate_block *block,
                                   const struct kernel_array *arrays, int own, int tensor)
{
    struct kernel_array array = arrays[own];
    const struct tensor *as = &block->program->block->tensors[tensor];
    for (int i = 0; i < array.rank; i++)
        array.dims[i] = as->extents[i].dim;
    return array;
}

struct kernel_call calibrate_call(const struct calibrate_block *block,
                                  const struct kernel_array *arrays, const struct instr *instr)
{
    const struct op *op = &block->program->block->ops[instr->op];
    struct kernel_call call = {.op = op,
                               .input_count = op->input_count,
                               .output_count = op->output_count,
                               .key = 1,
                               .vocab = block->vocab,
                               .head_count = block->head_count};
    const bool is_plan = block->plan != NULL;
    for (int i = 0; i < op->input_count; i++) {
        int own = is_plan ? instr->inputs[i] : op->inputs[i];
        call.inputs[i] = seen_as(block, arrays, own, op->inputs[i]);
    }
    for (int i = 0; i < op->output_count; i++) {
        int own = is_plan ? instr->outputs[i] : op->outputs[i];
        call.outputs[i] = seen_as(block, arrays, own, op->outputs[i]);
    }
    kernel_call_know_gemm(block->program->block, &call);
    // Gradients of micro-batches are added up.
    const struct tensor *result = &block->program->block->tensors[op->outputs[0]];
    bool is_gradient = result->role == TENSOR_PARAMETER_GRADIENT;
    if (op->kind == OP_CONTRACT && is_gradient) call.adds = 1;
    return call;
}
