#include "cost_models/compute.h"
#include "cost_models/parameters.h"

#include <assert.h>
#include <math.h>

// Output tiles of GEMM kernels, by falling arithmetic intensity ab/(a+b); each also runs turned.
static const struct {
    double a, b;
} TILES[] = {{256, 128}, {128, 128}, {256, 64}, {128, 64}, {64, 64}};
enum { TILE_COUNT = sizeof TILES / sizeof *TILES, SPLIT_COUNT = 3 };

// Of a 256x128 tile, which no longer waits for shared memory.
static const double FULL_INTENSITY = 256.0 * 128 / (256 + 128);

static double tile_ratio(double a, double b, double exponent)
{
    double intensity = a * b / (a + b);
    return intensity >= FULL_INTENSITY ? 1 : pow(intensity / FULL_INTENSITY, exponent);
}

// Units of one wave, some of which idle in the last; smoothed, because tiles do not end together.
static double wave_count(double tiles_per_unit, double smooth_ratio)
{
    return (1 - smooth_ratio) * ceil(tiles_per_unit) + smooth_ratio * fmax(tiles_per_unit, 1);
}

// Main loop of the best tile, at 1 flop/s a multiprocessor.
static double tiled_flop(const struct device *device, const struct gemm *gemm)
{
    const struct device_efficiency *efficiency = &device->efficiency;
    double units = device->multiprocessor_count, best = INFINITY;
    for (int tile = 0; tile < TILE_COUNT; tile++) {
        double a = TILES[tile].a, b = TILES[tile].b;
        double ratio = tile_ratio(a, b, efficiency->gemm_tile_exponent);
        for (int turned = 0; turned <= (a != b); turned++) {
            double rows = ceil((double)gemm->m / (turned ? b : a));
            double columns = ceil((double)gemm->n / (turned ? a : b));
            double tiles = (double)gemm->batch * rows * columns;
            for (int split = 0; split < SPLIT_COUNT; split++) {
                double k = (double)gemm->k / (1 << split);
                double waves =
                    wave_count(tiles * (1 << split) / units, efficiency->gemm_wave_smooth_ratio);
                double flop = waves * 2 * a * b * (k + efficiency->gemm_k_ramp) / ratio;
                if (flop < best) best = flop;
            }
        }
    }
    return best;
}

static bool is_aligned(const struct gemm *gemm)
{
    return gemm->m % 8 == 0 && gemm->n % 8 == 0 && gemm->k % 8 == 0;
}

static double gemm_bytes(const struct gemm *gemm, enum precision precision, bool accumulate_fp32)
{
    double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
    double result_bytes = accumulate_fp32 ? 8 : parameter_weight_bytes(precision);
    return (double)gemm->batch *
           ((m * k + k * n) * precision_bytes(precision) + m * n * result_bytes);
}

double gemm_s(const struct compute_context *context, const struct gemm *gemm, bool accumulate_fp32,
              enum bound *bound)
{
    const struct device *device = context->device;
    enum precision precision = context->precision;
    double peak = device->peak_flop_per_s[precision] * device->efficiency.gemm_ratio[precision] *
                  context->stack->gemm_scale;
    assert(peak > 0 && "the device has matrix units for the precision");
    if (gemm->batch > 1 && !is_aligned(gemm)) peak *= context->stack->unaligned_gemm_ratio;
    double compute_s = tiled_flop(device, gemm) / (peak / device->multiprocessor_count);
    double memory_s = gemm_bytes(gemm, precision, accumulate_fp32) /
                      (device->memory_bandwidth_bytes_per_s * device->efficiency.gemm_memory_ratio);
    double busy_s = fmax(compute_s, memory_s);
    *bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY;
    if (device->launch_latency_s > busy_s) *bound = BOUND_LAUNCH;
    return busy_s + device->launch_latency_s;
}

double stream_s(const struct compute_context *context, double bytes)
{
    const struct device *device = context->device;
    return bytes / (device->memory_bandwidth_bytes_per_s * device->efficiency.memory_ratio);
}

// Contractions that may run as one share the mark of their forward op; 0 where the stack runs each.
static int merge_of(const struct compute_context *context, const struct block_program *program,
                    const struct instr *instr)
{
    bool is_product = instr->collective == COLLECTIVE_NONE && instr->kind == OP_CONTRACT;
    if (!context->stack->merge_contractions || !is_product) return 0;
    const struct op *ops = program->block->ops;
    return ops[ops[instr->op].forward_op].merge;
}

static bool is_together(const struct compute_context *context, const struct block_program *program,
                        const struct instr *a, const struct instr *b)
{
    return a->phase == b->phase && a->recompute == b->recompute &&
           merge_of(context, program, a) == merge_of(context, program, b);
}

// Forward shares the left operand and adds columns; the gradient of that operand sums over all of
// them; weight gradients share it again, on whichever side it stands.
static void gemm_join(struct gemm *sum, const struct gemm *next, enum phase phase)
{
    if (phase == PHASE_BACKWARD) {
        sum->k += next->k;
    } else if (sum->m == next->m) {
        sum->n += next->n;
    } else {
        sum->m += next->m;
    }
}

// The GEMM that runs for this instruction; false when an earlier one does its work.
static bool joined_gemm(const struct compute_context *context, const struct block_program *program,
                        const struct instr *instr, struct gemm *gemm)
{
    *gemm = instr->gemm;
    if (!merge_of(context, program, instr)) return true;
    // Of redone forward work the op is still a forward one.
    enum phase phase = program->block->ops[instr->op].phase;
    int end = program->phase_first[instr->phase + 1];
    for (int i = program->phase_first[instr->phase]; i < end; i++) {
        const struct instr *other = &program->instrs[i];
        if (other == instr || !is_together(context, program, instr, other)) continue;
        if (other < instr) return false;
        gemm_join(gemm, &other->gemm, phase);
    }
    return true;
}

static int merge_of_producer(const struct compute_context *context,
                             const struct block_program *program, const struct instr *reader,
                             int buffer)
{
    for (const struct instr *instr = reader - 1; instr >= program->instrs; instr--) {
        for (int i = 0; i < instr->output_count; i++) {
            if (instr->outputs[i] == buffer) return merge_of(context, program, instr);
        }
    }
    return 0;
}

// One GEMM has already added up the input gradients of contractions that it joined.
static bool is_merged_sum(const struct compute_context *context,
                          const struct block_program *program, const struct instr *instr)
{
    if (instr->kind != OP_ADD || instr->phase != PHASE_BACKWARD || instr->recompute ||
        !context->stack->merge_contractions) {
        return false;
    }
    int first = merge_of_producer(context, program, instr, instr->inputs[0]);
    for (int i = 1; i < instr->input_count && first; i++) {
        if (merge_of_producer(context, program, instr, instr->inputs[i]) != first) return false;
    }
    return first != 0;
}

// Products of activations and the head stay in 16 bits where the other GEMMs run in fewer, as
// Transformer Engine does.
static enum precision product_precision(const struct compute_context *context,
                                        const struct block_program *program,
                                        const struct instr *instr)
{
    bool is_narrow = precision_bytes(context->precision) < 2;
    bool is_kept = program->block->role != BLOCK_LAYER || instr->gemm.batch > 1;
    return is_narrow && is_kept ? PRECISION_BF16 : context->precision;
}

static struct compute_cost price_contraction(const struct compute_context *context,
                                             const struct block_program *program,
                                             const struct instr *instr)
{
    struct gemm gemm;
    if (!joined_gemm(context, program, instr, &gemm)) return (struct compute_cost){0};
    struct compute_context own = *context;
    own.precision = product_precision(context, program, instr);
    const struct tensor *result =
        &program->block->tensors[program->block->ops[instr->op].outputs[0]];
    bool accumulates =
        context->stack->fp32_gradient_accumulation && result->role == TENSOR_PARAMETER_GRADIENT;
    struct compute_cost cost = {.kernel_count = 1};
    cost.s = gemm_s(&own, &gemm, accumulates, &cost.bound);
    if (precision_bytes(own.precision) < 2) {
        double operands = (double)(gemm.m + gemm.n) * (double)gemm.k;
        cost.s += stream_s(context, operands * context->stack->cast_bytes);
    }
    return cost;
}

static enum precision attention_precision(const struct device *device)
{
    if (device->peak_flop_per_s[PRECISION_BF16] > 0) return PRECISION_BF16;
    return device->peak_flop_per_s[PRECISION_FP16] > 0 ? PRECISION_FP16 : PRECISION_FP32;
}

static struct compute_cost price_attention(const struct compute_context *context,
                                           const struct instr *instr)
{
    const struct device_efficiency *efficiency = &context->device->efficiency;
    const struct stack *stack = context->stack;
    double peak = context->device->peak_flop_per_s[attention_precision(context->device)];
    double forward_ratio = efficiency->attention_forward_ratio * stack->attention_forward_scale;
    double limit_ratio = 1, most = stack->attention_flop_per_s_most;
    if (most > 0 && peak * forward_ratio > most) limit_ratio = most / (peak * forward_ratio);
    double ratio = instr->kind == OP_ATTENTION
                       ? forward_ratio
                       : efficiency->attention_backward_ratio * stack->attention_backward_scale;
    double keys = (double)instr->kv_seq;
    if (instr->window > 0 && instr->window < instr->kv_seq) keys = (double)instr->window;
    double ramp = keys / (keys + efficiency->attention_half_seq);
    double compute_s = instr->flop / (peak * ratio * limit_ratio * ramp);
    double memory_s = stream_s(context, (double)instr->read_bytes + (double)instr->write_bytes);
    double gap_s = context->device->launch_latency_s;
    return (struct compute_cost){
        .s = fmax(compute_s, memory_s) + gap_s,
        .bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
        .kernel_count = 1,
    };
}

static struct compute_cost price_streaming(const struct compute_context *context,
                                           const struct block_program *program,
                                           const struct instr *instr)
{
    double bytes = (double)instr->read_bytes + (double)instr->write_bytes;
    if (bytes <= 0 || is_merged_sum(context, program, instr)) return (struct compute_cost){0};
    bytes -= (double)instr->kept_bytes;
    // A scale above 1 is more kernels as well; a fused kernel is launched by its first member.
    double scale = context->stack->element_wise_scale, kernels = instr->kernel ? 0 : scale;
    double memory_s = stream_s(context, bytes * scale);
    double gap_s = context->device->launch_latency_s * kernels;
    return (struct compute_cost){
        .s = memory_s + gap_s,
        .bound = memory_s >= gap_s ? BOUND_MEMORY : BOUND_LAUNCH,
        .kernel_count = kernels,
    };
}

struct compute_cost compute_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr)
{
    assert(instr->collective == COLLECTIVE_NONE);
    switch (instr->kind) {
    case OP_CONTRACT:
        return price_contraction(context, program, instr);
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return price_attention(context, instr);
    default:
        return price_streaming(context, program, instr);
    }
}

double update_s(const struct compute_context *context, enum optimizer optimizer, double elements)
{
    double state_bytes = optimizer_state_bytes(optimizer, context->precision);
    double weight_bytes = parameter_weight_bytes(context->precision);
    // In fp32 the weight is its own master copy, and is read as well.
    if (context->precision == PRECISION_FP32) weight_bytes *= 2;
    double gradient_bytes = 2 * context->stack->gradient_bytes;
    return stream_s(context, elements * (2 * state_bytes + gradient_bytes + weight_bytes));
}
