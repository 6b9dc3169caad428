#include "cost_models/strided.h"
#include "models/op_image.h"
#include "plan/strided_sums.h"

#include <assert.h>
#include <math.h>

// Beside one reading of inputs and writing of outputs.
struct beside {
    double launches, bytes;
};

// Numbers of one sample, and whether all samples have the same.
static int64_t numbers_of(const struct tensor *tensor, bool *is_weight)
{
    int64_t numbers = 1;
    *is_weight = tensor_find_dim(tensor, DIM_BATCH) < 0;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->extents[i].dim != DIM_BATCH) numbers *= tensor->extents[i].size;
    return numbers;
}

// Gradients of both operands are launches of their own that read the result's; one that is repeated
// writes and reads sums of pieces.
static struct beside of_sums(const struct block *block, const struct op *op, int64_t batch,
                             double made_bytes)
{
    const struct strided *loops = op->work.strided;
    struct beside beside = {0, -made_bytes};
    for (int i = 0; i < op->output_count; i++) {
        bool is_weight;
        int64_t numbers = numbers_of(&block->tensors[op->outputs[i]], &is_weight), turns = 1;
        for (int l = 0; l < loops->count; l++)
            if (loops->steps[i][l] == 0) turns *= loops->sizes[l];
        *(is_weight ? &turns : &numbers) *= batch;
        int64_t pieces = strided_pieces(numbers, turns);
        beside.launches += pieces > 1 ? 2 : 1;
        beside.bytes += made_bytes;
        if (pieces > 1) beside.bytes += 2.0 * sizeof(float) * (double)(pieces * numbers);
    }
    assert(beside.launches >= op->output_count && beside.bytes >= 0);
    return beside;
}

// Where a move leaves numbers out these are filled with zeros first, and what it moves is added.
static struct beside of_move(const struct block *block, const struct op *op, double made_bytes,
                             double whole_bytes)
{
    bool is_weight;
    int64_t whole = numbers_of(&block->tensors[op->outputs[0]], &is_weight);
    if (whole == strided_elements(op->work.strided)) return (struct beside){1, 0};
    return (struct beside){2, made_bytes + fmin(made_bytes, whole_bytes)};
}

struct compute_cost strided_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr,
                                  struct compute_cost stream)
{
    const struct op *op = &program->block->ops[instr->op];
    bool is_forward = op->phase == PHASE_FORWARD;
    struct beside beside = {1, 0};
    double first_bytes = (double)program->buffers[instr->inputs[0]].bytes;
    if (op->work.type == IMPORTED_SPLIT)
        beside.launches = is_forward ? op->output_count : op->input_count;
    else if (op->work.type == IMPORTED_MOVE && !is_forward)
        beside = of_move(program->block, op, first_bytes,
                         (double)program->buffers[instr->outputs[0]].bytes);
    else if (!is_forward)
        beside = of_sums(program->block, op, instr->batch, first_bytes);
    double launch_s = context->device->launch_latency_s;
    stream.s += stream_s(context, beside.bytes);
    stream.s += launch_s * (beside.launches - stream.kernel_count);
    stream.kernel_count = beside.launches;
    return stream;
}
