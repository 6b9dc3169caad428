#include "cost_models/linear_loss.h"
#include "cost_models/parameters.h"

#include <assert.h>
#include <math.h>

static bool is_linear_loss(const struct instr *instr)
{
    return instr->collective == COLLECTIVE_NONE &&
           (instr->kind == OP_LINEAR_LOSS || instr->kind == OP_LINEAR_LOSS_BACKWARD);
}

// Columns of one part: those of the last may be fewer.
static int64_t part_columns(const struct block_program *program, const struct instr *instr)
{
    int64_t parts = program->block->ops[instr->op].chunk;
    assert(parts > 0 && instr->gemm.n > 0);
    return (instr->gemm.n + parts - 1) / parts;
}

// Whether the sum over all parts of what a row hands back is in fp32, beside results of 16 bits.
static bool sums_apart(const struct block_program *program, const struct instr *instr,
                       double element)
{
    return instr->kind == OP_LINEAR_LOSS_BACKWARD && element < sizeof(float) &&
           part_columns(program, instr) < instr->gemm.n;
}

static void add_gemm(const struct compute_context *context, struct gemm gemm, unsigned traits,
                     struct compute_cost *cost)
{
    cost->s += gemm_s(context, &gemm, traits, &cost->bound);
    cost->kernel_count += 1;
}

// Per part a product, the kernel that reduces its scores, and backward the two products that read
// their gradients.
struct compute_cost linear_loss_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr)
{
    struct compute_context own = *context;
    own.precision = wide_precision(context->device, context->precision);
    bool is_forward = instr->kind == OP_LINEAR_LOSS, has_weight = instr->output_count > 1;
    int64_t m = instr->gemm.m, k = instr->gemm.k, each = part_columns(program, instr);
    double element = precision_bytes(own.precision);
    struct compute_cost cost = {.bound = BOUND_COMPUTE};
    for (int64_t first = 0; first < instr->gemm.n; first += each) {
        int64_t n = each < instr->gemm.n - first ? each : instr->gemm.n - first;
        add_gemm(&own, (struct gemm){1, m, n, k}, 0, &cost);
        cost.s += stream_s(&own, (double)m * (double)n * element * (is_forward ? 1 : 2)) +
                  own.device->launch_latency_s;
        cost.kernel_count += 1;
        if (is_forward) continue;
        add_gemm(&own, (struct gemm){1, m, k, n}, GEMM_ACCUMULATES, &cost);
        if (has_weight) add_gemm(&own, (struct gemm){1, k, n, m}, GEMM_ACCUMULATES, &cost);
    }
    // At the end the losses of the rows, or what these hand back as it is kept.
    bool ends = is_forward || sums_apart(program, instr, element);
    if (!ends) return cost;
    double bytes = is_forward ? 0 : (double)m * (double)k * (sizeof(float) + element);
    cost.s += stream_s(&own, bytes) + own.device->launch_latency_s;
    cost.kernel_count += 1;
    return cost;
}

// Of one part: the next one writes over it.
double linear_loss_bytes(enum precision precision, const struct block_program *block)
{
    double bytes = 0, element = parameter_weight_bytes(precision);
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!is_linear_loss(instr)) continue;
        double scores = (double)instr->gemm.m * (double)part_columns(block, instr) * element;
        bool sums = sums_apart(block, instr, element);
        double sum = sums ? (double)instr->gemm.m * (double)instr->gemm.k * sizeof(float) : 0;
        bytes = fmax(bytes, scores + sum);
    }
    return bytes;
}
