#include "cost_models/compute.h"
#include "core/hash.h"
#include "core/real.h"
#include "cost_models/attention.h"
#include "cost_models/convolution.h"
#include "cost_models/gemm.h"
#include "cost_models/linear_loss.h"
#include "cost_models/own_kernels.h"
#include "cost_models/parameters.h"
#include "cost_models/scan.h"
#include "models/op.h"
#include "plan/script/graph.h"

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
    return intensity >= FULL_INTENSITY ? 1 : real_power(intensity / FULL_INTENSITY, exponent);
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
    assert(isfinite(best) && best >= 0);
    return best;
}

static bool is_aligned(const struct gemm *gemm)
{
    return gemm->m % 8 == 0 && gemm->n % 8 == 0 && gemm->k % 8 == 0;
}

static double gemm_bytes(const struct gemm *gemm, enum precision precision, unsigned traits)
{
    double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
    double result_bytes = traits & GEMM_ACCUMULATES ? 2 * sizeof(float)
                          : traits & GEMM_BEGINS    ? sizeof(float)
                                                    : parameter_weight_bytes(precision);
    return (double)gemm->batch *
           ((m * k + k * n) * precision_bytes(precision) + m * n * result_bytes);
}

// Loading operands and storing the result overlap with the main loop, but not wholly: 1 would be
// one after the other, infinity the longer of the two. Of 1, 1.5, 2 and infinity 1.5 is nearest to
// 183 GEMMs measured on an A100 and 290 long ones on a B200 (topologies/kernels), each fitted on
// one half and compared on the other: mean errors 3.2 and 3.8 % instead of 4.0 and 4.5 %.
double overlapped_s(double a_s, double b_s)
{
    double root = real_cube_root(a_s * sqrt(a_s) + b_s * sqrt(b_s));
    return root * root;
}

// Block scales came to matrix units together with fp4.
static bool has_block_scales(const struct device *device)
{
    return device->peak_flop_per_s[PRECISION_FP4] > 0;
}

// Whether GEMMs are narrow and the matrix units take block scales.
static bool takes_block_scales(const struct compute_context *context)
{
    return precision_bytes(context->precision) < 2 && has_block_scales(context->device);
}

bool compute_is_block_scaled_fp8(const struct compute_context *context)
{
    return context->precision == PRECISION_FP8 && has_block_scales(context->device);
}

static double fresh_gemm_s(const struct compute_context *context, const struct gemm *gemm,
                           unsigned traits, enum bound *bound)
{
    bool is_grouped = traits & GEMM_GROUPED;
    const struct device *device = context->device;
    enum precision precision = context->precision;
    // A stack may make better use of the device than others do, but not more than all.
    double ratio = fmin(1, device->efficiency.gemm_ratio[precision] * context->stack->gemm_scale);
    double peak = device->peak_flop_per_s[precision] * ratio;
    assert(peak > 0 && "the device has matrix units for the precision");
    bool is_batched = gemm->batch > 1 && !is_grouped;
    if (is_batched && !is_aligned(gemm)) peak *= context->stack->unaligned_gemm_ratio;
    bool is_fused = context->stack->expert_fusion && takes_block_scales(context);
    if (is_grouped && !is_fused) peak *= context->stack->grouped_gemm_ratio;
    double compute_s = tiled_flop(device, gemm) / (peak / device->multiprocessor_count);
    double memory_s = gemm_bytes(gemm, precision, traits) /
                      (device->memory_bandwidth_bytes_per_s * device->efficiency.gemm_memory_ratio);
    double busy_s = overlapped_s(compute_s, memory_s);
    *bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY;
    if (device->launch_latency_s > busy_s) *bound = BOUND_LAUNCH;
    return busy_s + device->launch_latency_s;
}

// The newest GEMM of each hash; one that costs nothing is none.
enum { GEMM_SLOTS = 1 << 12 };
struct gemm_memo {
    struct gemm_slot {
        struct gemm gemm;
        unsigned traits;
        enum precision precision;
        enum bound bound;
        double s;
    } slots[GEMM_SLOTS];
};

struct gemm_memo *gemm_memo_new(struct arena *arena)
{
    return ARENA_NEW(arena, struct gemm_memo, 1);
}

static struct gemm_slot *slot_of(struct gemm_memo *memo, const struct gemm *gemm, unsigned number)
{
    const int64_t sizes[] = {gemm->batch, gemm->m, gemm->n, gemm->k, (int64_t)number};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hash = hash_word(hash, (uint64_t)sizes[i]);
    return &memo->slots[hash % GEMM_SLOTS];
}

double gemm_s(const struct compute_context *context, const struct gemm *gemm, unsigned traits,
              enum bound *bound)
{
    if (!context->gemms) return fresh_gemm_s(context, gemm, traits, bound);
    unsigned number = traits * PRECISION_COUNT + (unsigned)context->precision;
    struct gemm_slot *slot = slot_of(context->gemms, gemm, number);
    const struct gemm *known = &slot->gemm;
    bool same = known->batch == gemm->batch && known->m == gemm->m && known->n == gemm->n &&
                known->k == gemm->k;
    if (!same || slot->traits != traits || slot->precision != context->precision || slot->s <= 0) {
        *slot = (struct gemm_slot){*gemm, traits, context->precision, BOUND_COMPUTE, 0};
        slot->s = fresh_gemm_s(context, gemm, traits, &slot->bound);
    }
    *bound = slot->bound;
    return slot->s;
}

double stream_s(const struct compute_context *context, double bytes)
{
    const struct device *device = context->device;
    return bytes / (device->memory_bandwidth_bytes_per_s * device->efficiency.memory_ratio);
}

// So many bytes in so many kernels.
static struct compute_cost price_stream(const struct compute_context *context, double bytes,
                                        double kernels)
{
    double memory_s = stream_s(context, bytes);
    double gap_s = context->device->launch_latency_s * kernels;
    return (struct compute_cost){
        .s = memory_s + gap_s,
        .bound = memory_s >= gap_s ? BOUND_MEMORY : BOUND_LAUNCH,
        .kernel_count = kernels,
    };
}

void stream_beside(const struct compute_context *context, double bytes, double kernels,
                   struct compute_cost *cost)
{
    assert(bytes >= 0 && kernels >= 0);
    cost->s += stream_s(context, bytes) + kernels * context->device->launch_latency_s;
    cost->kernel_count += kernels;
}

enum precision wide_precision(const struct device *device, enum precision run)
{
    if (precision_bytes(run) >= 2) return run;
    if (device->peak_flop_per_s[PRECISION_BF16] > 0) return PRECISION_BF16;
    return device->peak_flop_per_s[PRECISION_FP16] > 0 ? PRECISION_FP16 : PRECISION_FP32;
}

const struct instr *streamed_input(const struct block_program *program, const struct instr *instr)
{
    if (instr->kv_seq <= instr->seq) return NULL;
    for (const struct instr *at = instr - 1; at >= program->instrs; at--) {
        if (!at->streamed) continue;
        for (int i = 0; i < instr->input_count; i++) {
            if (instr->inputs[i] == at->outputs[0]) return at;
        }
    }
    return NULL;
}

bool compute_is_in_group(const struct compute_context *context, const struct block *block,
                         const struct op *op)
{
    return context->stack->expert_fusion && takes_block_scales(context) &&
           op_rule(op->kind)->element_wise && op_has_dim(block, op, DIM_EXPERT);
}

static struct compute_cost price_streaming(const struct compute_context *context,
                                           const struct block_program *program,
                                           const struct instr *instr)
{
    double bytes = (double)instr->read_bytes + (double)instr->write_bytes;
    const struct op *op = &program->block->ops[instr->op];
    bool never_runs = step_is_term_sum(program, instr) && stack_is_executed(context->stack);
    if (bytes <= 0 || never_runs || contraction_has_summed(program, instr) ||
        compute_is_in_group(context, program->block, op)) {
        return (struct compute_cost){0};
    }
    bytes -= (double)instr->kept_bytes;
    // A scale above 1 is more kernels as well; a fused kernel is launched by its first member.
    double scale = context->stack->element_wise_scale, kernels = instr->kernel ? 0 : scale;
    return price_stream(context, bytes * scale, kernels);
}

// Where it runs as operators of its own these move what the stack says.
static struct compute_cost price_loss(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr)
{
    const struct stack *stack = context->stack;
    bool is_forward = instr->kind == OP_LOSS;
    double each_bytes = is_forward ? stack->loss_forward_bytes : stack->loss_backward_bytes;
    if (each_bytes <= 0) return price_streaming(context, program, instr);
    int logits = is_forward ? instr->inputs[0] : instr->outputs[0];
    double elements =
        (double)program->buffers[logits].bytes / parameter_weight_bytes(context->precision);
    double kernels = stack->element_wise_scale;
    double gap_s = context->device->launch_latency_s * kernels;
    return (struct compute_cost){
        .s = stream_s(context, elements * each_bytes) + gap_s,
        .bound = BOUND_MEMORY,
        .kernel_count = kernels,
    };
}

// A convolution or matrix product of an imported graph: the main loop is that of the GEMM that it
// is computed as, but its windows overlap, so that what moves is its tensors, once each.
static struct compute_cost price_product(const struct compute_context *context,
                                         const struct instr *instr)
{
    const struct device *device = context->device;
    enum precision precision = wide_precision(device, context->precision);
    double ratio = fmin(1, device->efficiency.gemm_ratio[precision] * context->stack->gemm_scale);
    double peak = device->peak_flop_per_s[precision] * ratio;
    double compute_s = tiled_flop(device, &instr->gemm) / (peak / device->multiprocessor_count);
    double memory_s = ((double)instr->read_bytes + (double)instr->write_bytes) /
                      (device->memory_bandwidth_bytes_per_s * device->efficiency.gemm_memory_ratio);
    double busy_s = overlapped_s(compute_s, memory_s), launch_s = device->launch_latency_s;
    enum bound bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY;
    return (struct compute_cost){
        .s = busy_s + launch_s,
        .bound = launch_s > busy_s ? BOUND_LAUNCH : bound,
        .kernel_count = 1,
    };
}

// Where tensor ranks share each expert, what its rows are sorted among: all that those ranks hold
// together, behind the gather.
static double sorted_rows_bytes(const struct compute_context *context,
                                const struct block_program *program)
{
    double bytes = 0;
    for (int i = 0; i < program->instr_count && context->stack->splits_experts_as_tp; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_of_rows = instr->collective && instr->parent == AXIS_ETP && !instr->parameter;
        if (is_of_rows) bytes = fmax(bytes, (double)instr->bytes);
    }
    return bytes;
}

// The rows of experts, gathered from or added up to their tokens, and sorted by expert: kernels of
// their own, which no chain takes in.
static struct compute_cost price_permutation(const struct compute_context *context,
                                             const struct block_program *program,
                                             const struct instr *instr)
{
    double rows_bytes = 0, read_bytes = (double)instr->read_bytes;
    for (int i = 0; i < instr->input_count; i++)
        rows_bytes = fmax(rows_bytes, (double)program->buffers[instr->inputs[i]].bytes);
    for (int i = 0; i < instr->output_count; i++)
        rows_bytes = fmax(rows_bytes, (double)program->buffers[instr->outputs[i]].bytes);
    // A token is read for each of its rows.
    if (instr->kind == OP_DISPATCH) read_bytes = fmax(read_bytes, rows_bytes);
    double passes = context->stack->permute_passes;
    double sorted_bytes = fmax(rows_bytes, sorted_rows_bytes(context, program));
    double more_bytes = fmax(passes - 1, 0) * 2 * sorted_bytes;
    return price_stream(context, read_bytes + (double)instr->write_bytes + more_bytes,
                        fmax(passes, 1));
}

// Many small kernels on a few numbers a token.
static struct compute_cost price_route(const struct compute_context *context,
                                       const struct instr *instr)
{
    double bytes = (double)instr->read_bytes + (double)instr->write_bytes;
    struct compute_cost cost = price_stream(context, bytes, fmax(context->stack->route_kernels, 1));
    cost.host_s = context->stack->expert_host_s;
    return cost;
}

static bool has_experts(const struct block *block)
{
    for (int i = 0; i < block->op_count; i++)
        if (block->ops[i].kind == OP_ROUTE) return true;
    return false;
}

bool compute_has_narrow_attention(const struct compute_context *context, const struct block *block)
{
    return context->stack->expert_attention && compute_is_block_scaled_fp8(context) &&
           has_experts(block);
}

double compute_host_ratio(const struct compute_context *context,
                          const struct block_program *program)
{
    const struct stack *stack = context->stack;
    if (!stack->expert_graph || !has_block_scales(context->device) || !has_experts(program->block))
        return 1;
    return takes_block_scales(context) ? 0 : stack->expert_graph_host_ratio;
}

static bool is_read_by(const struct block *block, int tensor, enum op_kind kind)
{
    for (int i = 0; i < block->op_count; i++) {
        const struct op *op = &block->ops[i];
        if (op->kind == kind && op->phase == PHASE_FORWARD && op->inputs[0] == tensor) return true;
    }
    return false;
}

double compute_stash_s(const struct compute_context *context, const struct block_program *program)
{
    const struct block *block = program->block;
    double bytes = 0, low_precision_ratio = precision_bytes(context->precision) / 2.0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (!buffer->saved || buffer->external || buffer->tensor < 0) continue;
        if (tensor_find_dim(&block->tensors[buffer->tensor], DIM_EXPERT) < 0) continue;
        if (is_read_by(block, buffer->tensor, OP_COMBINE)) continue;
        bool is_operand = is_read_by(block, buffer->tensor, OP_CONTRACT);
        bytes += (double)buffer->bytes * (is_operand ? low_precision_ratio : 1);
    }
    return stream_s(context, 2 * bytes);
}

// A rank's part of what it has whole: a view, but for our engine, which copies it.
static struct compute_cost price_slice(const struct compute_context *context,
                                       const struct block_program *program,
                                       const struct instr *instr)
{
    if (!stack_is_executed(context->stack)) return (struct compute_cost){0};
    double moved = (double)lower_slice_bytes(program, instr);
    return price_stream(context, (instr->combine ? 3 : 2) * moved, 1);
}

// What runs as one call: its GEMMs, beside them what the others move from and to memory, and one
// launch. A GEMM's own price has its operands and its result.
static struct compute_cost price_group(const struct compute_context *context,
                                       const struct block_program *program,
                                       const struct instr *first)
{
    int begin = (int)(first - program->instrs), gemms = 0;
    double bytes = 0, scale = context->stack->element_wise_scale;
    double launch_s = context->device->launch_latency_s;
    struct compute_cost cost = {.bound = BOUND_MEMORY};
    for (int i = begin; i <= instr_last(program->instrs, begin); i++) {
        const struct instr *member = &program->instrs[i];
        if (member->kind != OP_CONTRACT) {
            bytes += (double)(member->read_bytes + member->write_bytes - member->kept_bytes);
            continue;
        }
        struct compute_cost gemm = gemm_price(context, program, member);
        // Done by one before it, which makes one sum of all, or a result for each.
        bool is_done = gemm.kernel_count == 0;
        bool is_summed = program->block->ops[member->op].phase == PHASE_BACKWARD;
        if (!is_done || !is_summed) bytes -= (double)member->kept_bytes;
        if (gemms++ == 0)
            cost = gemm;
        else if (!is_done)
            cost.s += gemm.s - launch_s;
    }
    double memory_s = stream_s(context, fmax(bytes, 0) * scale);
    if (gemms == 0) cost = (struct compute_cost){.s = launch_s * scale, .kernel_count = scale};
    if (gemms == 0) cost.bound = memory_s >= cost.s ? BOUND_MEMORY : BOUND_LAUNCH;
    cost.s += memory_s;
    return cost;
}

struct compute_cost compute_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr)
{
    if (instr->collective == COLLECTIVE_SLICE) return price_slice(context, program, instr);
    assert(instr->collective == COLLECTIVE_NONE);
    if (instr->joined) return price_group(context, program, instr);
    bool is_done = instr->kernel && program->instrs[instr->kernel - 1].joined;
    if (is_done) return (struct compute_cost){0};  // by the first of its group
    const struct op *op = &program->block->ops[instr->op];
    switch (instr->kind) {
    case OP_CONTRACT:
        return gemm_price(context, program, instr);
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return attention_price(context, program, instr);
    case OP_DISPATCH:
    case OP_COMBINE:
    case OP_DISPATCH_BACKWARD:
    case OP_COMBINE_BACKWARD:
        return price_permutation(context, program, instr);
    case OP_ROUTE:
    case OP_ROUTE_BACKWARD:
        return price_route(context, instr);
    case OP_LOSS:
    case OP_LOSS_BACKWARD:
        return price_loss(context, program, instr);
    case OP_LINEAR_LOSS:
    case OP_LINEAR_LOSS_BACKWARD:
        return linear_loss_price(context, program, instr);
    case OP_PRODUCT:
        return convolution_unfolds(context->stack, program->block, instr)
                   ? convolution_price(context, program, instr)
                   : price_product(context, instr);
    case OP_SCAN:
    case OP_SCAN_BACKWARD:
    case OP_DELTA:
    case OP_DELTA_BACKWARD:
        return scan_price(context, program, instr);
    case OP_POOLED:
    case OP_POOLED_BACKWARD:
        return pooled_price(context, op, instr, price_streaming(context, program, instr));
    case OP_CHOOSE:
        return choose_price(context, op, instr, price_streaming(context, program, instr));
    default:
        return products_price(
            context, op, instr,
            own_kernels_price(context, program, instr, price_streaming(context, program, instr)));
    }
}

// LAMB and LARS write their step instead of taking it, read it and the weights once for their
// norms, and both again when they take it (executor/engine/update.c): five passes in fp32.
static double trust_bytes(enum optimizer optimizer)
{
    enum { PASSES = 5 };
    bool is_trusted = optimizer == OPTIMIZER_LAMB || optimizer == OPTIMIZER_LARS;
    return is_trusted ? PASSES * sizeof(float) : 0;
}

double update_bytes(const struct compute_context *context, enum optimizer optimizer,
                    double elements)
{
    double state_bytes = stack_state_bytes(context->stack, optimizer, context->precision);
    double weight_bytes = parameter_weight_bytes(context->precision);
    // In fp32 the weight is its own master copy, and is read as well.
    if (context->precision == PRECISION_FP32) weight_bytes *= 2;
    double gradient_bytes = 2 * context->stack->gradient_bytes;
    return elements * (2 * state_bytes + gradient_bytes + weight_bytes + trust_bytes(optimizer));
}

double trust_norm_bytes(enum optimizer optimizer, double elements)
{
    enum { PASSES = 3 };
    return trust_bytes(optimizer) > 0 ? PASSES * sizeof(float) * elements : 0;
}

double norm_bytes(const struct compute_context *context, double elements)
{
    return elements * context->stack->gradient_bytes;
}

double update_s(const struct compute_context *context, enum optimizer optimizer, double elements)
{
    return stream_s(context, update_bytes(context, optimizer, elements));
}
