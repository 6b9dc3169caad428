#include "cost_models/walked.h"
#include "models/op_scan.h"
#include "plan/walked.h"

#include <assert.h>
#include <math.h>

static const double TURN_CYCLES = 500;

// By the clock of the device: 16 exponentials a cycle and multiprocessor (CUDA C++ programming
// guide). A device that does not say how many it makes takes a 15th of a launch, as on Hopper.
static double turn_s(const struct device *device)
{
    double exponentials = device->exponential_per_s / device->multiprocessor_count;
    if (exponentials <= 0) return device->launch_latency_s / 15;
    return TURN_CYCLES * 16 / exponentials;
}

// A block of executor/cuda/delta.cu, and how many a multiprocessor has at a time.
enum { WARPS = 8, LANES = 32, BLOCKS = 3 };

bool delta_walks(const struct stack *stack, const struct instr *instr)
{
    bool is_delta = instr->kind == OP_DELTA || instr->kind == OP_DELTA_BACKWARD;
    return instr->collective == COLLECTIVE_NONE && is_delta && stack_is_own_gpu(stack);
}

static struct token_walk walk_of(const struct block *block, const struct instr *instr)
{
    const struct op *op = &block->ops[instr->op];
    const struct tensor *b = &block->tensors[op->inputs[instr->kind == OP_DELTA ? 2 : 3]];
    assert(tensor_find_dim(b, DIM_STATE) >= 0);
    return (struct token_walk){.batch = instr->batch,
                               .seq = instr->seq,
                               .heads = instr->heads,
                               .groups = instr->kv_heads,
                               .width = instr->head_dim > 0 ? instr->head_dim : 1,
                               .state = b->extents[tensor_find_dim(b, DIM_STATE)].size};
}

static int64_t parts(int64_t count, int64_t each)
{
    assert(count >= 0 && each > 0);
    return (count + each - 1) / each;
}

// Turns of one token in one block.
static double turns_of(const struct token_walk *of, bool is_forward)
{
    if (is_forward) return 2;
    double channels = (double)parts(of->width, WARPS), lanes = (double)parts(of->state, LANES);
    double columns = (double)parts(of->state, WARPS * LANES);
    // The states twice, each time for the recall and for what is added, and their gradient, with a
    // sum of the warp.
    return channels * (5 * lanes + 1) + (double)of->width * columns;
}

// Blocks beyond those that the device holds at once wait for another round.
struct compute_cost walked_price(const struct compute_context *context,
                                 const struct block_program *program, const struct instr *instr)
{
    const struct device *device = context->device;
    struct token_walk of = walk_of(program->block, instr);
    bool is_forward = instr->kind == OP_DELTA;
    int64_t at_once = (int64_t)BLOCKS * device->multiprocessor_count, pairs = of.batch * of.heads;
    int64_t launches = is_forward ? 1 : parts(pairs, walk_pairs(&of));
    int64_t blocks = is_forward ? parts(pairs * of.width, WARPS) : walk_pairs(&of);
    double rounds = (double)(launches * parts(blocks, at_once));
    double walk_s = rounds * (double)of.seq * turns_of(&of, is_forward) * turn_s(device);
    double memory_s = stream_s(context, (double)instr->read_bytes + (double)instr->write_bytes);
    // Of each launch of backward what it says to keys and queries is added up, and at the end of
    // all.
    double kernels = is_forward ? 1 : 2 * (double)launches + 1;
    return (struct compute_cost){.s = fmax(walk_s, memory_s) + kernels * device->launch_latency_s,
                                 .bound = walk_s > memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
                                 .kernel_count = kernels};
}

// A processor's time for one number of a state at one token, in flop at the device's peak: of a
// core with AVX-512 that multiplies at 103 Gflop/s the processor's seconds in our kernels
// (executor/cpu/scan.c, delta.c; 512 tokens of 1,024 channels, states of 128, 64 and 16 numbers)
// over the numbers. Of those by state most are the decays' exponentials.
static const double STEPPED_FLOP[][2] = {{76, 21}, {175, 79}, {1470, 740}};
enum { STEPPED_SCAN, STEPPED_DELTA, STEPPED_BY_STATE };

struct compute_cost stepped_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    const struct tensor *b = &program->block->tensors[op->inputs[op_scan_b(op)]];
    double width = instr->head_dim > 0 ? (double)instr->head_dim : 1;
    double numbers = (double)(instr->batch * instr->seq * instr->heads) * width *
                     (double)b->extents[tensor_find_dim(b, DIM_STATE)].size;
    bool is_forward = instr->kind == OP_SCAN || instr->kind == OP_DELTA;
    bool is_delta = instr->kind == OP_DELTA || instr->kind == OP_DELTA_BACKWARD;
    int row = is_delta                                  ? STEPPED_DELTA
              : op_scan_is_by_state(program->block, op) ? STEPPED_BY_STATE
                                                        : STEPPED_SCAN;
    const struct device *device = context->device;
    double peak = device->peak_flop_per_s[PRECISION_FP32];
    // What has no units for fp32 steps in what it has for wide numbers.
    if (peak <= 0) peak = device->peak_flop_per_s[wide_precision(device, context->precision)];
    assert(peak > 0 && "a device computes in some precision");
    double walk_s = numbers * STEPPED_FLOP[row][is_forward] / peak;
    double memory_s = stream_s(context, (double)instr->read_bytes + (double)instr->write_bytes);
    return (struct compute_cost){.s = fmax(walk_s, memory_s) + device->launch_latency_s,
                                 .bound = walk_s > memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
                                 .kernel_count = 1};
}

double walked_bytes(const struct stack *stack, const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->kind == OP_DELTA || !delta_walks(stack, instr)) continue;
        struct token_walk of = walk_of(block->block, instr);
        bytes = fmax(bytes, (double)walk_bytes(&of));
    }
    return bytes;
}
