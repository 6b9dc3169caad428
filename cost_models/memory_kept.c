#include "cost_models/memory.h"

#include "cost_models/attention_unfused.h"
#include "cost_models/choosing.h"
#include "cost_models/chunked.h"
#include "cost_models/convolution.h"
#include "cost_models/linear_loss.h"
#include "cost_models/own_kernels.h"
#include "cost_models/scan.h"
#include "cost_models/walked.h"

#include <assert.h>
#include <math.h>

// What a block keeps of one micro-batch from forward to backward, and what goes together.

// Transformer Engine keeps the operand of a narrow weight gradient as that reads it, and beside it
// what else is read in 16 bits (module/linear.py and layernorm_linear.py).
static double saved_bytes(const struct stack *stack, enum precision precision,
                          const struct block_program *block)
{
    double bytes = (double)block->saved_bytes;
    unsigned products = stack_low_precision_gemms(stack, precision);
    if (!(products >> PHASE_WEIGHT & 1) || block->block->role != BLOCK_LAYER) return bytes;
    double ratio = precision_bytes(precision) / 2;
    return bytes - (1 - ratio) * (double)block->weight_read_bytes +
           ratio * (double)block->shared_read_bytes;
}

double memory_kept_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block)
{
    double bytes = saved_bytes(stack, precision, block);
    bool is_layer = block->block->role == BLOCK_LAYER;
    return stack->keeps_gathers && is_layer ? bytes + (double)block->gathered_bytes : bytes;
}

double memory_least_kept_bytes(const struct stack *stack, enum precision precision,
                               const struct block_program *block)
{
    if (stack->regathers_between_nodes) return saved_bytes(stack, precision, block);
    return memory_kept_bytes(stack, precision, block);
}

// Of nanotron's published sweep (tp_recompute_allgather, which its rows do not state) the peaks of
// pipelines whose tensor groups no node holds have no room for what was gathered; others have.
static bool regathers(const struct program *program, const struct stack *stack)
{
    if (!stack->regathers_between_nodes || program->shape.stage_count == 1) return false;
    int rank_count = mesh_size(&program->mesh, mesh_axes_of(&program->mesh, AXIS_TP));
    return rank_count > program->cluster->nodes[0].gpus;
}

double memory_held_bytes(const struct program *program, const struct stack *stack,
                         const struct block_program *block)
{
    enum precision precision = program->workload.precision;
    if (regathers(program, stack)) return saved_bytes(stack, precision, block);
    return memory_kept_bytes(stack, precision, block);
}

// Narrow operands in proportion, as no class is told apart among what low-precision products keep.
double memory_class_bytes(const struct stack *stack, enum precision precision,
                          const struct block_program *block, unsigned classes)
{
    int64_t bytes = 0;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        if (classes >> class & 1) bytes += block->class_saved_bytes[class];
    }
    if (bytes == 0) return 0;
    assert(bytes > 0 && block->saved_bytes > 0 && "classes part what is saved");
    return saved_bytes(stack, precision, block) * (double)bytes / (double)block->saved_bytes;
}

// Kernels run one after another and share the room: the largest decides.
double memory_kernel_bytes(const struct stack *stack, enum precision precision,
                           const struct block_program *block)
{
    if (block->knows_kernels) return block->kernel_bytes;
    double bytes = score_bytes(stack, precision, block);
    bytes = fmax(bytes, convolution_bytes(stack, precision, block));
    bytes = fmax(bytes, own_kernels_bytes(stack, precision, block));
    bytes = fmax(bytes, linear_loss_bytes(precision, block));
    bytes = fmax(bytes, walked_bytes(stack, block));
    bytes = fmax(bytes, chunked_bytes(stack, precision, block));
    bytes = fmax(bytes, selective_scan_bytes(stack, block));
    return fmax(bytes, choosing_bytes(stack, precision, block));
}

void memory_note_kernels(const struct stack *stack, enum precision precision,
                         struct block_program *block)
{
    block->kernel_bytes = memory_kernel_bytes(stack, precision, block);
    assert(isfinite(block->kernel_bytes) && block->kernel_bytes >= 0);
    block->knows_kernels = true;
}

double memory_bucket_bytes(const struct program *program, const struct stack *stack)
{
    const struct mesh *mesh = &program->mesh;
    unsigned axes = mesh_axes_of(mesh, AXIS_DP) | mesh_axes_of(mesh, AXIS_CP);
    return stack_bucket_bytes(stack, &program->parallel, mesh_size(mesh, axes));
}

// Of the tensor that the loss reads, in another layout.
static double made_bytes(const struct block_program *block, const struct buffer *read)
{
    double bytes = 0;
    for (int b = 0; b < block->buffer_count; b++) {
        const struct buffer *other = &block->buffers[b];
        bool is_made = other != read && other->tensor == read->tensor && other->saved;
        if (is_made) bytes += (double)other->bytes;
    }
    return bytes;
}

struct memory_logits memory_logits_of(const struct block_program *block)
{
    struct memory_logits logits = {0};
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        if (instr->kind == OP_LOSS && !instr->recompute) {
            const struct buffer *scores = &block->buffers[instr->inputs[0]];
            logits.bytes += (double)scores->bytes;
            logits.saved = scores->saved;
            logits.made_bytes += made_bytes(block, scores);
        } else if (instr->kind == OP_LOSS_BACKWARD) {
            double bytes = (double)block->buffers[instr->outputs[0]].bytes;
            if (bytes > logits.gradient_bytes) logits.gradient_bytes = bytes;
        }
    }
    return logits;
}
