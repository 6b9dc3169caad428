#include "cost_models/stack.h"

#include <assert.h>

// What a stack keeps of the optimizer, and how it puts gradients together.

bool stack_keeps_sums(const struct stack *stack, bool is_pipeline)
{
    return stack->accumulates_whole || (stack->accumulates_in_pipeline && is_pipeline);
}

bool stack_accumulates(const struct stack *stack, const struct parallel *parallel,
                       int64_t global_batch)
{
    bool is_pipeline = parallel->degree[AXIS_PP] > 1;
    return stack_keeps_sums(stack, is_pipeline) && parallel->zero >= 2 &&
           parallel_micro_batch_count(parallel, global_batch) > 1;
}

// In fp32 the weights are the master copy.
double stack_state_bytes(const struct stack *stack, enum optimizer optimizer,
                         enum precision precision)
{
    double master_bytes = precision == PRECISION_FP32 ? 0 : stack->master_bytes;
    return master_bytes + stack->moment_bytes * optimizer_moment_count(optimizer);
}

double stack_host_state_bytes(const struct stack *stack, enum optimizer optimizer,
                              enum precision precision)
{
    double weight_bytes = precision == PRECISION_FP32 ? precision_bytes(PRECISION_FP32) : 0;
    return stack_state_bytes(stack, optimizer, precision) + weight_bytes;
}

double stack_reserve_ratio(const struct stack *stack, int stage_count)
{
    assert(stage_count >= 1);
    bool is_own = stage_count > 1 && stack->pipeline_reserve_ratio > 0;
    return is_own ? stack->pipeline_reserve_ratio : stack->reserve_ratio;
}

// Relays are asked for to be hidden: they switch that on.
unsigned stack_overlap_default(const struct stack *stack, int tp_relay)
{
    return stack->overlap_default | (tp_relay > 1 ? stack->overlap & OVERLAP_TP : 0);
}

// A plan's own bucket replaces the software's rule, which grows with the ranks.
double stack_bucket_bytes(const struct stack *stack, const struct parallel *parallel,
                          int rank_count)
{
    assert(rank_count >= 0 && parallel->bucket_bytes >= 0);
    if (parallel->bucket_bytes > 0) return parallel->bucket_bytes;
    double own = (double)stack->bucket_bytes, ranks = stack->bucket_bytes_per_rank * rank_count;
    return ranks > own ? ranks : own;
}

double stack_gradient_bytes(const struct stack *stack, enum precision precision)
{
    bool is_own = precision == PRECISION_FP16 && stack->fp16_gradient_bytes > 0;
    return is_own ? stack->fp16_gradient_bytes : stack->gradient_bytes;
}

double stack_reduce_bytes(const struct stack *stack, enum precision precision)
{
    bool is_own = precision == PRECISION_FP16 && stack->fp16_gradient_bytes > 0;
    return is_own ? stack->fp16_gradient_bytes : stack->reduce_bytes;
}

// How often a weight is kept as one of the two products reads it.
static int kept_casts(const struct stack *stack, enum precision precision)
{
    unsigned products = stack_low_precision_gemms(stack, precision);
    if (!stack->cached_weight_cast) return 0;
    return (int)(products >> PHASE_FORWARD & 1) + (int)(products >> PHASE_BACKWARD & 1);
}

// Megatron-LM has --fp8-param-gather with its distributed optimizer alone, whose update writes the
// casts (megatron/training/arguments.py); recipes of NeMo (fp8_params of bf16_with_fp8_mixed) and
// Megatron-Bridge (training/mixed_precision.py) turn it on in fp8, delayed, current and block
// scales, and not in fp4. What is gathered for each use (ZeRO 3) is not kept at all.
bool stack_has_narrow_weights(const struct stack *stack, enum precision precision, int zero)
{
    bool may_be = stack->narrow_weights && precision == PRECISION_FP8;
    return may_be && (zero == 1 || zero == 2) && kept_casts(stack, precision) == 2;
}

double stack_cast_bytes_kept(const struct stack *stack, enum precision precision, int zero)
{
    double bytes = kept_casts(stack, precision) * precision_bytes(precision);
    bool is_alone = stack_has_narrow_weights(stack, precision, zero);
    return is_alone ? bytes - precision_bytes(PRECISION_BF16) : bytes;
}

bool stack_keeps_low_precision_weights(const struct stack *stack, enum precision precision,
                                       bool sharded)
{
    bool is_cast_late = sharded && stack->fp32_weights && precision != PRECISION_FP32;
    return !is_cast_late;
}

unsigned stack_low_precision_gemms(const struct stack *stack, enum precision precision)
{
    if (precision == PRECISION_FP8) return stack->fp8_gemms;
    return precision == PRECISION_FP4 ? stack->fp4_gemms : 0;
}
