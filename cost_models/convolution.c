#include "cost_models/convolution.h"
#include "cost_models/parameters.h"
#include "plan/unfolded.h"

#include <assert.h>
#include <math.h>

static const struct op *op_of(const struct block *block, const struct instr *instr)
{
    return &block->ops[instr->op];
}

// A group of one channel is a sum of shifted images and no product of matrices.
bool convolution_unfolds(const struct stack *stack, const struct block *block,
                         const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_PRODUCT ||
        !stack_is_own_gpu(stack))
        return false;
    const struct op_work *work = &op_of(block, instr)->work;
    bool is_turned = work->type == IMPORTED_CONV_TURNED;
    return work->type == IMPORTED_CONV ? work->columns > 1 : is_turned && work->depth > 1;
}

// Whether the wide side is what is made: from a matrix of fp32.
static bool makes_wide(const struct op *op)
{
    bool is_turned = op->work.type == IMPORTED_CONV_TURNED;
    return op->phase != PHASE_WEIGHT && (op->phase == PHASE_FORWARD) == is_turned;
}

static struct unfolding unfolding_of(const struct block *block, const struct instr *instr,
                                     enum precision precision)
{
    const struct op *op = op_of(block, instr);
    const struct op_work *work = &op->work;
    bool is_turned = work->type == IMPORTED_CONV_TURNED;
    bool is_plain = window_is_plain(&work->windows[0]) && window_is_plain(&work->windows[1]);
    double element = makes_wide(op) ? sizeof(float) : parameter_weight_bytes(precision);
    return (struct unfolding){.groups = work->groups,
                              .channels = is_turned ? work->depth : work->columns,
                              .depth = is_turned ? work->columns : work->depth,
                              .samples = instr->batch,
                              .rows = instr->seq,
                              .columns = instr->kv_seq,
                              .element_bytes = is_plain ? 0 : (int64_t)element};
}

// GEMMs of one part, and the kernel beside them.
static void add_part(const struct compute_context *context, const struct unfolding *of,
                     const struct op *op, struct unfolded_part part, double times,
                     struct compute_cost *cost)
{
    assert(part.samples > 0 && part.rows > 0 && times >= 0);
    bool makes_weight = op->phase == PHASE_WEIGHT;
    bool is_once = unfolded_is_once(of, makes_weight);
    double calls = is_once ? 1 : (double)part.samples;
    struct gemm gemm = {.batch = is_once ? part.samples : of->groups,
                        .m = of->channels,
                        .n = part.rows * of->columns,
                        .k = of->depth};
    if (makes_wide(op))
        gemm.m = of->depth, gemm.k = of->channels;
    else if (makes_weight)
        gemm.n = of->depth, gemm.k = part.rows * of->columns;
    cost->s +=
        times * calls * gemm_s(context, &gemm, makes_weight ? GEMM_ACCUMULATES : 0, &cost->bound);
    cost->kernel_count += times * calls;
    if (of->element_bytes == 0) return;
    // Unfolding writes the matrix, which the GEMM reads; folding reads it, and the GEMM has written
    // what a result of the run's precision has not.
    double elements = (double)(part.samples * part.rows * of->groups * of->depth * of->columns);
    double narrow = parameter_weight_bytes(context->precision);
    double bytes = makes_wide(op) ? 2 * sizeof(float) - narrow : narrow;
    cost->s += times * (stream_s(context, elements * bytes) + context->device->launch_latency_s);
    cost->kernel_count += times;
}

struct compute_cost convolution_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr)
{
    struct compute_context own = *context;
    own.precision = wide_precision(context->device, context->precision);
    const struct op *op = op_of(program->block, instr);
    struct unfolding of = unfolding_of(program->block, instr, own.precision);
    struct compute_cost cost = {.bound = BOUND_COMPUTE};
    if (of.samples == 0 || of.rows == 0 || of.columns == 0) return cost;
    struct unfolded_part part = unfolded_part(&of, UNFOLDED_BYTES);
    assert(part.samples <= of.samples && part.rows <= of.rows && part.samples > 0 && part.rows > 0);
    // Of samples or of rows all parts but the last are alike.
    int64_t parts = of.samples / part.samples, rounds = of.rows / part.rows;
    struct unfolded_part last = {of.samples % part.samples, part.rows};
    add_part(&own, &of, op, part, (double)(parts * rounds), &cost);
    if (last.samples > 0) add_part(&own, &of, op, last, (double)rounds, &cost);
    last = (struct unfolded_part){part.samples, of.rows % part.rows};
    if (last.rows > 0) add_part(&own, &of, op, last, (double)parts, &cost);
    // The side that is unfolded is read as an image, and what is folded written.
    if (of.element_bytes > 0) {
        bool is_wide = makes_wide(op);
        const int *buffers = is_wide ? instr->outputs : instr->inputs;
        bool is_turned = op->work.type == IMPORTED_CONV_TURNED;
        int side = !is_wide && op->phase == PHASE_WEIGHT && is_turned;
        cost.s += stream_s(&own, (double)program->buffers[buffers[side]].bytes);
    }
    return cost;
}

double convolution_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!convolution_unfolds(stack, block->block, instr)) continue;
        struct unfolding of = unfolding_of(block->block, instr, precision);
        bytes = fmax(bytes, (double)unfolded_bytes(&of, UNFOLDED_BYTES));
    }
    return bytes;
}
