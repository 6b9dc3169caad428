#include "cost_models/scan.h"
#include "cost_models/chunked.h"
#include "cost_models/parameters.h"
#include "cost_models/walked.h"
#include "models/op_delta.h"
#include "plan/selective.h"

#include <assert.h>
#include <math.h>

// States pass from chunk to chunk in fp32: each is written by the GEMM that makes it, read and
// written by the kernel that adds up what comes from the chunks before, and read again; the GEMMs'
// own prices have the first and the last. Backward passes the gradients of the states as well.
static double passing_bytes(const struct scan_shape *shape, bool is_forward)
{
    double states = (double)op_scan_states(shape);
    return 2 * states * sizeof(float) * (is_forward ? 1 : 2);
}

static bool is_forward_kind(enum op_kind kind)
{
    return kind == OP_SCAN || kind == OP_DELTA;
}

static struct scan_shape shape_of(const struct block_program *program, const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    const struct tensor *b = &program->block->tensors[op->inputs[op_scan_b(op)]];
    int state = tensor_find_dim(b, DIM_STATE);
    int64_t chunk = op->chunk > 0 && op->chunk < instr->seq ? op->chunk : instr->seq;
    assert(state >= 0 && chunk > 0 && instr->heads > 0);
    return (struct scan_shape){.batch = instr->batch,
                               .seq = instr->seq,
                               .heads = instr->heads,
                               .groups = instr->kv_heads,
                               .head_dim = instr->head_dim > 0 ? instr->head_dim : 1,
                               .state = b->extents[state].size,
                               .chunk = chunk};
}

static struct selective_scan selective_of(const struct scan_shape *shape)
{
    return (struct selective_scan){shape->batch, shape->seq, shape->heads * shape->head_dim,
                                   shape->state};
}

// How often each exponential is made, and flops, bytes and launches.
struct by_state {
    double exponentials, flop, bytes;
    int kernels;
};
static struct by_state by_state_of(const struct compute_context *context, const struct instr *instr,
                                   const struct scan_shape *shape)
{
    struct by_state of = {1, instr->flop, (double)instr->read_bytes + (double)instr->write_bytes,
                          1};
    if (!stack_is_own_gpu(context->stack)) return of;
    bool is_backward = instr->kind == OP_SCAN_BACKWARD;
    const struct selective_scan scan = selective_of(shape);
    int bytes = (int)parameter_weight_bytes(context->precision);
    of.exponentials = is_backward ? SELECTIVE_BACKWARD_EXPONENTIALS : SELECTIVE_EXPONENTIALS;
    of.flop += op_scan_numbers(shape) * (is_backward ? SELECTIVE_BACKWARD_AGAIN : SELECTIVE_AGAIN);
    of.bytes += selective_bytes(&scan, is_backward, bytes);
    of.kernels = is_backward ? SELECTIVE_BACKWARD_KERNELS : SELECTIVE_KERNELS;
    return of;
}

// One kernel, whose states stay on the chip: what is read and written once, or the exponentials of
// the decays, backward again, or what else is computed in single precision, where the device says
// at what rate it does. Of our own back end several (plan/selective.h).
static struct compute_cost by_state_price(const struct compute_context *context,
                                          const struct instr *instr, const struct scan_shape *shape)
{
    const struct device *device = context->device;
    struct by_state of = by_state_of(context, instr, shape);
    double memory_s = stream_s(context, of.bytes);
    double peak = device->peak_flop_per_s[PRECISION_FP32];
    double compute_s = peak > 0 ? of.flop / peak : 0, rate = device->exponential_per_s;
    if (rate > 0) compute_s = fmax(compute_s, of.exponentials * op_scan_numbers(shape) / rate);
    return (struct compute_cost){.s = fmax(memory_s, compute_s) +
                                      of.kernels * device->launch_latency_s,
                                 .bound = compute_s > memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
                                 .kernel_count = of.kernels};
}

// Of our back end alone, which keeps states between its kernels.
double selective_scan_bytes(const struct stack *stack, const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count && stack_is_own_gpu(stack); i++) {
        const struct instr *instr = &block->instrs[i];
        bool is_backward = instr->kind == OP_SCAN_BACKWARD;
        if (instr->collective != COLLECTIVE_NONE || (instr->kind != OP_SCAN && !is_backward))
            continue;
        if (!op_scan_is_by_state(block->block, &block->block->ops[instr->op])) continue;
        const struct scan_shape shape = shape_of(block, instr);
        const struct selective_scan scan = selective_of(&shape);
        bytes = fmax(bytes, sizeof(float) * (double)selective_room(&scan, is_backward));
    }
    return bytes;
}

// The batched GEMMs of its chunks one after another, as the kernels of the paper's authors run
// them, and one that passes the states on. No stack computes them narrower than in 16 bits.
struct compute_cost scan_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr)
{
    if (context->stack->walks_scans) return stepped_price(context, program, instr);
    if (delta_walks(context->stack, instr)) return walked_price(context, program, instr);
    if (scan_is_chunked(context->stack, program->block, instr))
        return chunked_price(context, program, instr);
    bool is_forward = is_forward_kind(instr->kind);
    bool is_delta = instr->kind == OP_DELTA || instr->kind == OP_DELTA_BACKWARD;
    const struct scan_shape shape = shape_of(program, instr);
    const struct op *op = &program->block->ops[instr->op];
    if (!is_delta && op_scan_is_by_state(program->block, op))
        return by_state_price(context, instr, &shape);
    struct compute_context wide = *context;
    struct scan_gemm gemms[SCAN_GEMM_MAX];
    int count = is_delta ? op_delta_gemms(&shape, is_forward, gemms)
                         : op_scan_gemms(&shape, is_forward, gemms);
    double launch_s = context->device->launch_latency_s, longest_s = 0;
    assert(count > 0 && count <= SCAN_GEMM_MAX);
    wide.precision = wide_precision(context->device, context->precision);
    struct compute_cost cost = {.s =
                                    launch_s + stream_s(context, passing_bytes(&shape, is_forward)),
                                .bound = BOUND_MEMORY,
                                .kernel_count = count + 1};
    for (int i = 0; i < count; i++) {
        enum bound bound;
        double busy_s = gemm_s(&wide, &gemms[i].gemm, 0, &bound) - launch_s;
        cost.s += busy_s * gemms[i].share + launch_s;
        if (busy_s <= longest_s) continue;
        longest_s = busy_s;
        cost.bound = bound;
    }
    return cost;
}
