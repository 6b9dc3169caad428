#include "cost_models/measured.h"

static const enum kernel_phase PHASES[PHASE_COUNT] = {
    [PHASE_FORWARD] = KERNEL_FORWARD,
    [PHASE_BACKWARD] = KERNEL_BACKWARD,
    [PHASE_WEIGHT] = KERNEL_WEIGHT,
};

const struct kernel *measured_gemm(const struct compute_context *context, const struct gemm *gemm,
                                   unsigned traits, enum phase phase)
{
    if (!context->device->kernels) return NULL;
    const struct kernel wanted = {
        .kind = traits & GEMM_GROUPED ? KERNEL_GROUPED_GEMM : KERNEL_GEMM,
        .phase = PHASES[phase],
        .precision = context->precision,
        .batch = gemm->batch,
        .m = gemm->m,
        .n = gemm->n,
        .k = gemm->k,
        .accumulate_fp32 = traits & GEMM_ACCUMULATES,
    };
    return kernels_find(context->device->kernels, &wanted);
}

const struct kernel *measured_attention(const struct compute_context *context,
                                        const struct instr *instr)
{
    bool is_windowed = instr->window > 0 && instr->window < instr->kv_seq;
    if (!context->device->kernels || instr->seq != instr->kv_seq || is_windowed) return NULL;
    bool is_half = context->precision == PRECISION_FP16;
    const struct kernel wanted = {
        .kind = KERNEL_ATTENTION,
        .phase = instr->kind == OP_ATTENTION ? KERNEL_FORWARD : KERNEL_BACKWARD,
        .precision = is_half ? PRECISION_FP16 : attention_precision(context->device),
        .batch = instr->batch,
        .heads = instr->heads,
        .kv_heads = instr->kv_heads,
        .head_dim = instr->head_dim,
        .value_dim = instr->value_dim,
        .seq = instr->seq,
        .causal = instr->causal,
    };
    return kernels_find(context->device->kernels, &wanted);
}

static bool is_kernel(const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE) return false;
    return instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION ||
           instr->kind == OP_ATTENTION_BACKWARD;
}

struct measured_use measured_use_of(struct arena *arena, const struct compute_context *context,
                                    const struct program *program)
{
    struct measured_use use = {.table = context->device->kernels};
    if (!use.table) return use;
    use.used = ARENA_NEW(arena, bool, use.table->row_count);
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            if (!is_kernel(&block->instrs[i])) continue;
            struct compute_cost cost = compute_price(context, block, &block->instrs[i]);
            if (cost.s <= 0) continue;  // an earlier one does its work
            use.kernel_count++;
            if (!cost.measured) continue;
            use.price_count++;
            bool *used = &use.used[cost.measured - use.table->rows];
            use.row_count += !*used;
            *used = true;
        }
    }
    return use;
}
