#include "cost_models/attention.h"
#include "cost_models/attention_unfused.h"
#include "cost_models/choosing.h"
#include "cost_models/measured.h"
#include "cost_models/parameters.h"
#include "models/op_pool.h"

#include <assert.h>
#include <math.h>

// Of our own engine lowering says which order a plan has.
static bool is_zigzag(const struct compute_context *context, const struct instr *instr)
{
    return context->stack->cp_zigzag && !instr->in_order;
}

// Work of the rank with most of it over the mean, where ranks hold consecutive queries: the last
// queries of a causal sequence, or of a chunk, attend to most keys. 2 - 1/ranks without a window.
static double causal_imbalance(const struct compute_context *context, const struct instr *instr)
{
    if (!instr->causal || instr->kv_seq <= instr->seq || is_zigzag(context, instr)) return 1;
    double queries = (double)instr->seq, keys = (double)instr->kv_seq;
    double window = instr->window > 0 ? fmin((double)instr->window, keys) : keys;
    if (instr->chunked) return 2 - fmin(queries, window) / window;
    // Pairs of a query and a key that it attends to: `all` of them, and those of the queries before
    // the last rank's (`others`).
    double all = keys * window - window * window / 2;
    double before = keys - queries, first = fmin(before, window);
    double others = before <= window ? before * before / 2 : before * window - first * first / 2;
    double ratio = (all - others) / (all * queries / keys);
    assert(ratio >= 1 - 1e-9 && "the last queries meet no fewer keys than the mean");
    return (all - others) / (all * queries / keys);
}

// How attention meets its keys: all at once, or block after block as they come round the ring.
struct rounds {
    double count;
    double keys;         // of one kernel
    double merge_bytes;  // of the sums of the blocks' results, in all rounds
};

static struct rounds rounds_of(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr,
                               int64_t window)
{
    struct rounds rounds = {.count = 1, .keys = (double)instr->kv_seq};
    const struct instr *streamed = streamed_input(program, instr);
    if (streamed) {
        // As many ranks as there are pieces of the sequence; zig-zag halves each.
        rounds.count = streamed->stream_steps + 1;
        rounds.keys = (double)instr->seq / (instr->causal && is_zigzag(context, instr) ? 2 : 1);
        double result_bytes = (double)program->buffers[instr->outputs[0]].bytes;
        rounds.merge_bytes = 3 * result_bytes * streamed->stream_steps;
    }
    if (window > 0) {
        double seen = (double)window * (instr->causal || instr->chunked ? 1 : 2);
        rounds.keys = fmin(rounds.keys, seen);
    }
    assert(rounds.count >= 1 && rounds.keys > 0 && rounds.merge_bytes >= 0);
    return rounds;
}

// Rows of queries that a multiprocessor works on at a time.
static const double ATTENTION_ROWS = 128;

// Work that could be done while the last blocks of rows end, over all of it: blocks are
// independent, and multiprocessors without one idle for half of a block in the mean, less where the
// kernel starts the longest blocks first. The longest block of a causal sequence attends to all
// keys, the mean one to half of them. What few heads a rank and short sequences lose; on an A100 it
// takes the error on 12 measured backward kernels from 10.1 to 2.8 %, forward from 14.3 to 5.8 %
// (topologies/kernels/simumax-a100-pcie.json).
static double tail_ratio(const struct device *device, const struct instr *instr)
{
    double rows = (double)instr->batch * (double)instr->heads * (double)instr->seq;
    double longest = instr->causal ? 2 : 1, half = device->efficiency.attention_tail_ratio / 2;
    return half * longest * ATTENTION_ROWS * device->multiprocessor_count / rows;
}

// The gradients of q and k of wider heads do not stay in the registers of a multiprocessor:
// backward of 192 wide keys runs at 0.80 of the rate of 128 wide ones on an A100 and at 0.83 on a
// B200 (topologies/kernels). Newer kernels keep them in the memory of the matrix units that take
// block scales: 0.90 and 0.89 on GB200 and GB300, means of 10 pairs of 2,048 to 32,768 keys
// (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training, results of 2026-06-15, cuDNN 9.24).
static const int64_t WIDE_HEAD = 128;
static const double WIDE_BACKWARD_RATIO = 0.8, WIDE_BACKWARD_RATIO_BLOCKS = 0.9;

// In fp8 with block scales matrix units reach the same share of their peak, wide heads as well,
// whose operands are half as large; scores, and in backward their gradients, are quantised by the
// ordinary units: so many instructions a query and key. Fitted, one number a direction, to what 64
// pairs of kernels in MXFP8 and bf16 gain (the same results; GB200 and GB300, heads of 128 and 192,
// 2,048 to 16,384 keys, masked and not): 6.3 and 8.9 % off in the root mean square.
static const double QUANTISE_FORWARD = 1.3, QUANTISE_BACKWARD = 21;

// Kernels written for an older device reach so much less in backward than in forward on a newer
// one: FlashAttention-2 gets 73 % of the peak of an A100 in forward and 63 % in backward (Dao 2023,
// arXiv 2307.08691, section 4.1), and 335 TFLOP/s in both together on H100, which with 370 in
// forward leaves 323 for backward, 0.87 of it. The limit is the kernel's: what a device would do
// with a better one does not move it.
static const double BACKWARD_MOST_RATIO = 0.863;

// A lower power limit takes the clock from all of them: matrix units, exponentials, older kernels.
static double clock_ratio(const struct device *device)
{
    double ratio = device->efficiency.attention_clock_ratio;
    return ratio > 0 ? ratio : 1;
}

static double peak_flop_per_s(const struct compute_context *context, bool is_narrow)
{
    const struct device *device = context->device;
    enum precision wide = wide_precision(device, context->precision);
    double peak = device->peak_flop_per_s[is_narrow ? context->precision : wide];
    return clock_ratio(device) * peak;
}

// Devices with fp4 are those whose matrix units take block scales and have memory of their own.
static double wide_head_ratio(const struct compute_context *context, const struct instr *instr,
                              bool is_narrow)
{
    if (is_narrow || instr->head_dim <= WIDE_HEAD) return 1;
    bool in_blocks = context->device->peak_flop_per_s[PRECISION_FP4] > 0;
    return in_blocks ? WIDE_BACKWARD_RATIO_BLOCKS : WIDE_BACKWARD_RATIO;
}

// Seconds of one flop: the matrix units wait for the exponentials of the softmax, one a query and
// key, and these for them, as far as the two do not overlap. The narrower the head, the fewer flops
// an exponential has. With it the mean error on 90 forward rates of H100 in Shah et al. 2024
// (arXiv 2407.08608, figure 5, three libraries) falls from 13.2 to 6.8 %.
static double flop_s(const struct compute_context *context, const struct instr *instr,
                     bool is_forward, bool is_narrow)
{
    const struct device *device = context->device;
    const struct device_efficiency *efficiency = &device->efficiency;
    double peak = peak_flop_per_s(context, is_narrow);
    double ratio = is_forward ? efficiency->attention_forward_ratio
                              : efficiency->attention_backward_ratio *
                                    wide_head_ratio(context, instr, is_narrow);
    double scale = is_forward ? context->stack->attention_forward_scale
                              : context->stack->attention_backward_scale;
    double keys = (double)instr->head_dim, values = (double)instr->value_dim;
    double pair_flop = 2 * (is_forward ? keys + values : 3 * keys + 2 * values);
    double matrix_s = 1 / (peak * ratio), exponential_s = 0, quantise_s = 0;
    double clock = clock_ratio(device), exponential_per_s = clock * device->exponential_per_s;
    if (exponential_per_s > 0) exponential_s = 1 / (pair_flop * exponential_per_s);
    if (is_narrow) {
        double instructions_per_s = clock * device->peak_flop_per_s[PRECISION_FP32] / 2;
        quantise_s =
            (is_forward ? QUANTISE_FORWARD : QUANTISE_BACKWARD) / (pair_flop * instructions_per_s);
    }
    double one_s = overlapped_s(matrix_s, exponential_s) + quantise_s;
    one_s = fmax(one_s / scale, 1 / peak);
    double most = clock * context->stack->attention_flop_per_s_most;
    bool is_native =
        context->stack->attention_native_with_fp4 && device->peak_flop_per_s[PRECISION_FP4] > 0;
    if (most <= 0 || is_native) return one_s;
    return fmax(one_s, 1 / (is_forward ? most : most * BACKWARD_MOST_RATIO));
}

// What a block of rows costs beside its keys: beginning and ending, and of a causal one the pairs
// of its last tiles that are masked: a third without them (kernels of H100 in Shah et al. 2024,
// arXiv 2407.08608, figure 5: 150 to 300 keys and not 400 to 500).
static double half_keys(const struct device *device, const struct instr *instr)
{
    return device->efficiency.attention_half_seq / (instr->causal ? 1 : 3);
}

// What quantising the operands of a narrow attention adds: queries, keys and values in forward,
// which backward reads once more, and there the gradient of the result.
static void add_casts(const struct compute_context *context, const struct instr *instr,
                      bool is_forward, struct compute_cost *cost)
{
    double rows = (double)(instr->batch * instr->seq * instr->heads);
    double key_rows = (double)(instr->batch * instr->kv_seq * instr->kv_heads);
    double keys = (double)instr->head_dim, values = (double)instr->value_dim;
    double elements = is_forward ? rows * keys + key_rows * (keys + values) : rows * values;
    double kernels = (is_forward ? 3 : 1) * context->stack->cast_kernels;
    stream_beside(context, elements * context->stack->cast_bytes, kernels, cost);
}

// What our back end's fused attention runs beside cuDNN's kernels: slopes and sinks by head, and
// the gradient of these; the gradients of a ring's blocks, which are added up.
static void add_own(const struct compute_context *context, const struct block_program *program,
                    const struct instr *instr, double calls, bool is_summed,
                    struct compute_cost *cost)
{
    const struct op *op = &program->block->ops[instr->op];
    bool is_forward = instr->kind == OP_ATTENTION, is_ring = calls > 1;
    bool has_choice = op->top_k > 0;
    bool has_sinks = is_forward ? op->input_count > 3 + has_choice : op->output_count > 3;
    double rows = (double)(instr->batch * instr->heads * instr->seq), bytes = 0;
    double element = parameter_weight_bytes(context->precision);
    double kernels = op->alibi > 0 ? calls : 0;
    if (has_sinks) kernels += is_forward ? 1 : 2;
    if (has_sinks && !is_forward) bytes += 2 * rows * (double)instr->value_dim * element;
    // Those of keys that are summed in fp32 are added at the end of that.
    if (!is_forward && is_ring && is_summed) kernels += calls - 1;
    if (!is_forward && is_ring && !is_summed) {
        double keys = (double)(instr->batch * instr->kv_heads * instr->kv_seq);
        kernels += 3 * calls - 1;
        bytes += 3 * keys * (double)(instr->head_dim + instr->value_dim) * element;
    }
    stream_beside(context, bytes, kernels, cost);
}

// A measured row holds for the whole of it, but no row is believed above the device's peak.
static struct compute_cost price_unfused(const struct compute_context *context,
                                         const struct block_program *program,
                                         const struct instr *instr)
{
    struct compute_cost cost = unfused_price(context, program, instr);
    cost.measured = measured_attention(context, program, instr);
    if (cost.measured) {
        cost.s = fmax(cost.measured->s, instr->flop / peak_flop_per_s(context, false)) +
                 context->device->launch_latency_s;
    }
    return cost;
}

struct compute_cost attention_price(const struct compute_context *context,
                                    const struct block_program *program, const struct instr *instr)
{
    const struct stack *stack = context->stack;
    bool is_forward = instr->kind == OP_ATTENTION;
    if (attention_unfused(stack, context->precision, program, instr) != UNFUSED_COUNT)
        return price_unfused(context, program, instr);
    bool is_narrow = compute_has_narrow_attention(context, program->block);
    double scale = is_forward ? stack->attention_forward_scale : stack->attention_backward_scale;
    double one_s = flop_s(context, instr, is_forward, is_narrow);
    const struct instr met = attended_instr(stack, program->block, instr);
    struct rounds rounds = rounds_of(context, program, instr, met.window);
    double ramp = rounds.keys / (rounds.keys + half_keys(context->device, instr));
    double flop =
        met.flop * causal_imbalance(context, &met) * (1 + tail_ratio(context->device, instr));
    double compute_s = flop * one_s / ramp;
    double memory_s = stream_s(context, (double)met.read_bytes + (double)met.write_bytes);
    // A kernel a block, and behind all but the first one that merges its result; those of our own
    // gradients are counted with what else it runs beside.
    bool is_own = stack->unfused_attention;
    double kernels = rounds.count + (is_own && !is_forward ? 0 : rounds.count - 1);
    double gap_s = context->device->launch_latency_s * kernels;
    double busy_s = fmax(compute_s, memory_s) + stream_s(context, rounds.merge_bytes);
    const struct kernel *measured = is_narrow ? NULL : measured_attention(context, program, instr);
    if (measured) busy_s = fmax(measured->s / scale, instr->flop / peak_flop_per_s(context, false));
    struct compute_cost cost = {
        .s = busy_s + gap_s,
        .measured = measured,
        .bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
        .kernel_count = kernels,
    };
    bool is_summed = met.flop > instr->flop && add_attended(context, instr, rounds.count, &cost);
    if (is_narrow) add_casts(context, instr, is_forward, &cost);
    if (is_own) add_own(context, program, instr, rounds.count, is_summed, &cost);
    assert(isfinite(cost.s) && cost.s >= gap_s && cost.kernel_count >= 1);
    return cost;
}

// The same where queries see so many `keys` as tokens, of which at most `window` (0 = all).
static double imbalance_of(const struct compute_context *context, const struct instr *instr,
                           int64_t keys, int64_t window)
{
    struct instr seen = *instr;
    seen.kv_seq = keys;
    seen.window = window;
    return causal_imbalance(context, &seen);
}

// Of attention to tokens and to entries: by the pairs of each.
static double pooled_imbalance(const struct compute_context *context, const struct op *op,
                               const struct instr *instr)
{
    const struct op of_tokens = {.causal = true, .window = op->window};
    double near = op_attended_pairs(&of_tokens, instr->seq, instr->kv_seq);
    double far = op_entry_pairs(op, instr->seq, instr->kv_seq / op->rate);
    double most = near * imbalance_of(context, instr, instr->kv_seq, op->window) +
                  far * imbalance_of(context, instr, instr->kv_seq, op->top_k * op->rate);
    return most / (near + far);
}

struct compute_cost pooled_price(const struct compute_context *context, const struct op *op,
                                 const struct instr *instr, struct compute_cost stream)
{
    assert(stream.s >= 0 && stream.kernel_count >= 0);
    const struct device_efficiency *efficiency = &context->device->efficiency;
    const struct stack *stack = context->stack;
    bool is_forward = instr->kind == OP_POOLED;
    double ratio = is_forward
                       ? efficiency->attention_forward_ratio * stack->attention_forward_scale
                       : efficiency->attention_backward_ratio * stack->attention_backward_scale;
    double flop = instr->flop * pooled_imbalance(context, op, instr);
    double compute_s = flop / (peak_flop_per_s(context, false) * fmin(1, ratio));
    double gap_s = context->device->launch_latency_s * stream.kernel_count;
    if (compute_s <= stream.s - gap_s) return stream;
    stream.s = compute_s + gap_s;
    stream.bound = BOUND_COMPUTE;
    return stream;
}

struct compute_cost choose_price(const struct compute_context *context, const struct op *op,
                                 const struct instr *instr, struct compute_cost stream)
{
    assert(instr->heads > 0 && instr->head_dim > 0);
    if (stack_is_own_gpu(context->stack)) return choosing_price(context, instr, &stream);
    const struct device_efficiency *efficiency = &context->device->efficiency;
    double scale = context->stack->attention_forward_scale;
    double ratio = fmin(1, efficiency->attention_forward_ratio * scale);
    double flop = instr->flop;
    if (op->rate > 0)
        flop *= imbalance_of(context, instr, instr->kv_seq * op->rate, 0);
    else
        flop *= causal_imbalance(context, instr);
    double compute_s = flop / (peak_flop_per_s(context, false) * ratio);
    // The sum over heads in fp32, which the choice reads.
    double each = (double)instr->heads * (2.0 * (double)instr->head_dim + 3);
    double scores_s = stream_s(context, 2 * sizeof(float) * flop / each);
    double gap_s = context->device->launch_latency_s;
    double memory_s = scores_s + stream.s - gap_s * stream.kernel_count;
    return (struct compute_cost){
        .s = fmax(compute_s, memory_s) + 2 * gap_s,
        .bound = compute_s >= memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
        .kernel_count = 2,
    };
}

struct compute_cost products_price(const struct compute_context *context, const struct op *op,
                                   const struct instr *instr, struct compute_cost stream)
{
    if (!op->work.multiplies || instr->flop <= 0) return stream;
    bool is_forward = op->phase == PHASE_FORWARD;
    const struct device_efficiency *efficiency = &context->device->efficiency;
    double scale = is_forward ? context->stack->attention_forward_scale
                              : context->stack->attention_backward_scale;
    double ratio =
        is_forward ? efficiency->attention_forward_ratio : efficiency->attention_backward_ratio;
    double compute_s = instr->flop / (peak_flop_per_s(context, false) * fmin(1, ratio * scale));
    double gap_s = context->device->launch_latency_s * stream.kernel_count;
    if (compute_s <= stream.s - gap_s) return stream;
    stream.s = compute_s + gap_s;
    stream.bound = BOUND_COMPUTE;
    return stream;
}
