#include "plan/script/checking.h"

#include <assert.h>

// Which write of a buffer an instruction reads: the block program is in an order in which every
// read comes behind the write it means.

static void count_versions(struct arena *arena, struct check_block *made)
{
    const struct block_program *block = made->program;
    int *written = ARENA_NEW(arena, int, block->buffer_count);
    made->version_first = ARENA_NEW(arena, int, block->buffer_count + 1);
    // What comes in from a neighbour is a write before the first.
    for (int k = 0; k < BLOCK_EDGES; k++) {
        if (block->inputs[k] >= 0) written[block->inputs[k]] = 1;
        if (block->output_gradients[k] >= 0) written[block->output_gradients[k]] = 1;
        made->output_version[k] = made->input_gradient_version[k] = -1;
    }
    for (int i = 0; i <= block->instr_count; i++) {
        for (int k = 0; k < BLOCK_EDGES && i == block->phase_first[PHASE_BACKWARD]; k++) {
            if (block->outputs[k] >= 0) made->output_version[k] = written[block->outputs[k]] - 1;
        }
        for (int b = 0; b < block->buffer_count && i == block->phase_first[PHASE_BACKWARD]; b++)
            made->forward_version[b] = written[b] - 1;
        if (i == block->instr_count) break;
        const struct instr *instr = &block->instrs[i];
        for (int k = 0; k < instr->input_count; k++)
            made->read_version[i][k] = written[instr->inputs[k]] - 1;
        for (int k = 0; k < instr->output_count; k++)
            made->written_version[i][k] = written[instr->outputs[k]]++;
    }
    for (int k = 0; k < BLOCK_EDGES; k++) {
        if (block->input_gradients[k] >= 0)
            made->input_gradient_version[k] = written[block->input_gradients[k]] - 1;
    }
    int all = 0;
    for (int b = 0; b < block->buffer_count; b++) {
        made->version_first[b] = all;
        all += written[b];
    }
    made->version_first[block->buffer_count] = all;
}

static void find_inner_ops(struct check_block *made)
{
    const struct block_program *block = made->program;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        made->inner_op[i] = -1;
        for (int o = i - 1; o >= 0 && instr->inner > 0 && made->inner_op[i] < 0; o--) {
            const struct instr *other = &block->instrs[o];
            if (!other->collective && other->op == instr->op) made->inner_op[i] = o;
        }
        if (made->inner_op[i] >= 0 && instr->collective == COLLECTIVE_ALL_REDUCE)
            made->exchanges[made->inner_op[i]]++;
    }
}

static void find_streamed(struct check_block *made)
{
    const struct block_program *block = made->program;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!instr->streamed) continue;
        made->is_streamed[instr->inputs[0]] = made->is_streamed[instr->outputs[0]] = true;
    }
}

static bool is_sum_of(const struct block *block, int sum, int term)
{
    int producer = block->tensors[sum].producer;
    if (producer < 0 || block->ops[producer].kind != OP_ADD) return false;
    for (int i = 0; i < block->ops[producer].input_count; i++) {
        if (block->ops[producer].inputs[i] == term) return true;
    }
    return false;
}

int check_weight_of(const struct check_block *block, int tensor)
{
    for (int i = 0; tensor >= 0 && i < block->program->parameter_count; i++) {
        if (block->program->parameters[i].tensor == tensor) return i;
    }
    return -1;
}

int check_gradient_of(const struct check_block *block, int tensor)
{
    const struct block_program *program = block->program;
    for (int i = 0; tensor >= 0 && i < program->parameter_count; i++) {
        int gradient = block->gradients->of_parameter[program->parameters[i].tensor];
        if (gradient < 0) continue;
        if (gradient == tensor || is_sum_of(program->block, gradient, tensor)) return i;
    }
    return -1;
}

bool check_is_term_sum(const struct block_program *block, const struct instr *instr)
{
    if (instr->collective || instr->kind != OP_ADD) return false;
    const struct buffer *sum = &block->buffers[instr->outputs[0]];
    return sum->external && block->block->tensors[sum->tensor].role == TENSOR_PARAMETER_GRADIENT;
}

static void count_gradient_writes(struct check_block *made)
{
    const struct block_program *block = made->program;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        for (int k = 0; k < instr->output_count && !check_is_term_sum(block, instr); k++) {
            const struct buffer *buffer = &block->buffers[instr->outputs[k]];
            int parameter = buffer->external ? check_gradient_of(made, buffer->tensor) : -1;
            if (parameter >= 0) made->gradient_writes[parameter] += 1 + made->exchanges[i];
        }
    }
}

struct check_block check_block_make(struct arena *arena, const struct program *program,
                                    const struct block_program *block)
{
    int instrs = block->instr_count;
    struct check_block made = {
        .program = block,
        .read_version = arena_alloc(arena, (size_t)instrs, sizeof *made.read_version),
        .written_version = arena_alloc(arena, (size_t)instrs, sizeof *made.written_version),
        .inner_op = ARENA_NEW(arena, int, instrs),
        .exchanges = ARENA_NEW(arena, int, instrs),
        .classes = lower_classes(arena, block),
        .is_streamed = ARENA_NEW(arena, bool, block->buffer_count),
        .gradient_writes = ARENA_NEW(arena, int, block->parameter_count),
    };
    for (int i = 0; i < program->gradients->block_count; i++) {
        if (program->gradients->blocks[i].block == block->block)
            made.gradients = &program->gradients->blocks[i].gradients;
    }
    assert(made.gradients);
    made.forward_version = ARENA_NEW(arena, int, block->buffer_count);
    count_versions(arena, &made);
    find_inner_ops(&made);
    find_streamed(&made);
    count_gradient_writes(&made);
    return made;
}
