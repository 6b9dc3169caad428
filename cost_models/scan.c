#include "cost_models/scan.h"
#include "cost_models/chunked.h"
#include "cost_models/walked.h"
#include "models/op_delta.h"

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
    return (struct scan_shape){.batch = instr->batch,
                               .seq = instr->seq,
                               .heads = instr->heads,
                               .groups = instr->kv_heads,
                               .head_dim = instr->head_dim > 0 ? instr->head_dim : 1,
                               .state = b->extents[state].size,
                               .chunk = chunk};
}

// One kernel, whose states stay on the chip: what is read and written once, or the exponentials of
// the decays, backward again, or what else is computed in single precision, where the device says
// at what rate it does.
static struct compute_cost by_state_price(const struct compute_context *context,
                                          const struct instr *instr, const struct scan_shape *shape)
{
    const struct device *device = context->device;
    double memory_s = stream_s(context, (double)instr->read_bytes + (double)instr->write_bytes);
    double peak = device->peak_flop_per_s[PRECISION_FP32];
    double compute_s = peak > 0 ? instr->flop / peak : 0;
    if (device->exponential_per_s > 0)
        compute_s = fmax(compute_s, op_scan_numbers(shape) / device->exponential_per_s);
    return (struct compute_cost){.s = fmax(memory_s, compute_s) + device->launch_latency_s,
                                 .bound = compute_s > memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
                                 .kernel_count = 1};
}

// The batched GEMMs of its chunks one after another, as the kernels of the paper's authors run
// them, and one that passes the states on. No stack computes them narrower than in 16 bits.
struct compute_cost scan_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr)
{
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
