#include "executor/calibrate/calibrate.h"

#include "executor/engine/held.h"

#include <assert.h>

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

// The first of those that run as one with it.
static const struct instr *group_of(const struct block_program *program, const struct instr *instr)
{
    return &program->instrs[instr_first(program->instrs, (int)(instr - program->instrs))];
}

// One row for all that runs as one.
bool calibrate_is_measured(const struct calibrate_block *block, const struct instr *instr)
{
    if (group_of(block->program, instr) != instr) return false;
    return block->plan ? is_kernel(block->program, instr) : instr->collective == COLLECTIVE_NONE;
}

void calibrate_block_count(struct calibrate_block *block)
{
    for (int i = 0; i < block->program->instr_count; i++) {
        const struct instr *instr = &block->program->instrs[i];
        block->row_count += calibrate_is_measured(block, instr);
        if (!block->plan || is_kernel(block->program, instr)) block->flop += instr->flop;
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
            .index = b,
            .batch = (int64_t)plan->parallel.micro_batch * plan->parallel.degree[AXIS_DP],
            .seq = plan->workload.seq_len,
            .vocab = plan->graph->vocab,
            .head_count = plan->graph->head_count,
            .begins_subject = count == 0,
        };
        assert(block.batch > 0 && block.seq > 0);
        calibrate_block_count(&block);
        if (block.row_count > 0) blocks[count++] = block;
    }
    return count;
}

int calibrate_array_count(const struct calibrate_block *block)
{
    return block->plan ? block->program->buffer_count : block->program->block->tensor_count;
}

bool calibrate_is_needed(const struct calibrate_block *block, int array)
{
    const struct block_program *program = block->program;
    assert(array >= 0 && array < calibrate_array_count(block));
    if (!block->plan) return true;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!is_kernel(program, group_of(program, instr))) continue;
        for (int k = 0; k < instr->input_count; k++) {
            if (instr_input(program, instr, k) == array) return true;
        }
        for (int k = 0; k < instr->output_count; k++) {
            if (instr_output(program, instr, k) == array) return true;
        }
    }
    return false;
}

// A plan's arrays are buffers, which know their tensor.
const struct tensor *calibrate_tensor(const struct calibrate_block *block, int array)
{
    const struct block_program *program = block->program;
    return &program->block->tensors[block->plan ? program->buffers[array].tensor : array];
}

void calibrate_hold(const struct calibrate_block *block, int buffer, struct kernel_array *array)
{
    if (!block->plan) return;
    struct program room;
    const struct program *seen = program_of_block(block->plan, block->index, &room);
    struct held held = held_of_buffer(seen, block->program, buffer, seen->mesh.first_rank);
    for (int i = 0; i < array->rank; i++) {
        array->sizes[i] = held.count[i];
        array->first[i] = held.first[i];
    }
}

// The array of a buffer, with the names of dims that operand `tensor` of the operator has; a sum
// may have other terms than its operator.
static struct kernel_array seen_as(const struct calibrate_block *block,
                                   const struct kernel_array *arrays, const struct instr *instr,
                                   int buffer, int tensor)
{
    int own = block->program->buffers[buffer].tensor;
    struct kernel_array array = arrays[block->plan ? buffer : own];
    const struct tensor *as = &block->program->block->tensors[tensor < 0 ? own : tensor];
    for (int i = 0; i < array.rank; i++)
        array.dims[i] = as->extents[i].dim;
    if (!instr->rows) return array;
    struct program room;
    const struct program *seen = program_of_block(block->plan, block->index, &room);
    struct held part = held_of_operand(seen, block->program, instr, buffer, seen->mesh.first_rank);
    for (int i = 0; i < array.rank; i++)
        array.sizes[i] = part.count[i];
    return array;
}

struct kernel_call calibrate_call(const struct calibrate_block *block,
                                  const struct kernel_array *arrays, const struct instr *instr)
{
    const struct op *op = &block->program->block->ops[instr->op];
    const struct instr *first = group_of(block->program, instr);
    struct kernel_call call = {.op = op,
                               .merged = first->joined > 0 && first[1].join == JOIN_MERGED,
                               .input_count = instr->input_count,
                               .output_count = instr->output_count - (instr->cast > 0),
                               .passing = instr->passing,
                               .key = 1,
                               .vocab = block->vocab,
                               .head_count = block->head_count};
    bool is_sum = op->kind == OP_ADD;
    assert(call.output_count > 0 && call.output_count <= OP_OUTPUT_MAX);
    for (int i = 0; i < instr->input_count; i++)
        call.inputs[i] = seen_as(block, arrays, instr, instr_input(block->program, instr, i),
                                 is_sum ? -1 : op->inputs[i]);
    for (int i = 0; i < call.output_count; i++)
        call.outputs[i] =
            seen_as(block, arrays, instr, instr_output(block->program, instr, i), op->outputs[i]);
    kernel_call_know_gemm(block->program->block, &call);
    // Gradients of micro-batches are added up.
    const struct tensor *result = &block->program->block->tensors[op->outputs[0]];
    bool is_gradient = result->role == TENSOR_PARAMETER_GRADIENT;
    if (op->kind == OP_CONTRACT && is_gradient) call.adds = 1;
    return call;
}

double calibrate_flop(const struct calibrate_kernel *row)
{
    double flop = row->instr->flop;
    for (int i = 1; i < row->instr->joined; i++)
        flop += row->instr[i].flop;
    assert(flop >= 0);
    return flop;
}

double calibrate_bytes(const struct calibrate_kernel *row)
{
    double bytes = 0;
    for (int i = 0; i == 0 || i < row->instr->joined; i++) {
        const struct instr *instr = &row->instr[i];
        bytes += (double)(instr->read_bytes + instr->write_bytes - instr->kept_bytes);
        // What GEMMs share that are one is read once.
        for (int k = 0; k < instr->input_count && i > 0 && instr->merge; k++) {
            bool is_shared = !instr->input_views[k] && instr->inputs[k] == row->instr->inputs[k];
            if (is_shared) bytes -= (double)row->program->buffers[instr->inputs[k]].bytes;
        }
    }
    assert(bytes >= 0 && "what is shared was counted for each");
    return bytes;
}
