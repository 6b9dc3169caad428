#include "cost_models/measured.h"

#include "cost_models/attention_unfused.h"
#include "cost_models/gemm.h"

#include <assert.h>

static const enum kernel_phase PHASES[PHASE_COUNT] = {
    [PHASE_FORWARD] = KERNEL_FORWARD,
    [PHASE_BACKWARD] = KERNEL_BACKWARD,
    [PHASE_WEIGHT] = KERNEL_WEIGHT,
};

static bool is_kernel(const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE) return false;
    return instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION ||
           instr->kind == OP_ATTENTION_BACKWARD;
}

struct kernel measured_gemm_shape(const struct compute_context *context, const struct gemm *gemm,
                                  unsigned traits, enum phase phase)
{
    return (struct kernel){
        .kind = traits & GEMM_GROUPED ? KERNEL_GROUPED_GEMM : KERNEL_GEMM,
        .phase = PHASES[phase],
        .precision = context->precision,
        .batch = gemm->batch,
        .m = gemm->m,
        .n = gemm->n,
        .k = gemm->k,
        .accumulate_fp32 = traits & (GEMM_ACCUMULATES | GEMM_BEGINS),
    };
}

const struct kernel *measured_gemm(const struct compute_context *context, const struct gemm *gemm,
                                   unsigned traits, enum phase phase)
{
    if (!context->device->kernels) return NULL;
    const struct kernel wanted = measured_gemm_shape(context, gemm, traits, phase);
    return kernels_find(context->device->kernels, &wanted);
}

// Of a shape that has no fused kernel a row is one of products; of others, whose dropout or whose
// prefix keeps them from it, the shape does not say which of the two a row is.
static bool attention_shape(const struct compute_context *context,
                            const struct block_program *program, const struct instr *instr,
                            struct kernel *shape)
{
    enum unfused rule = attention_unfused(context->stack, context->precision, program, instr);
    bool is_told = rule == UNFUSED_COUNT || rule == UNFUSED_FP32 || rule == UNFUSED_WIDE_BACKWARD ||
                   rule == UNFUSED_WIDTH || rule == UNFUSED_UNEVEN_HEADS;
    if (!is_told) return false;
    bool is_windowed = instr->window > 0 && instr->window < instr->kv_seq;
    if (instr->seq != instr->kv_seq || is_windowed) return false;
    *shape = (struct kernel){
        .kind = KERNEL_ATTENTION,
        .phase = instr->kind == OP_ATTENTION ? KERNEL_FORWARD : KERNEL_BACKWARD,
        .precision = wide_precision(context->device, context->precision),
        .batch = instr->batch,
        .heads = instr->heads,
        .kv_heads = instr->kv_heads,
        .head_dim = instr->head_dim,
        .value_dim = instr->value_dim,
        .seq = instr->seq,
        .causal = instr->causal,
    };
    return true;
}

const struct kernel *measured_attention(const struct compute_context *context,
                                        const struct block_program *program,
                                        const struct instr *instr)
{
    struct kernel wanted;
    const struct kernel_table *table = context->device->kernels;
    if (!table || !attention_shape(context, program, instr, &wanted)) return NULL;
    return kernels_find(table, &wanted);
}

bool measured_shape(const struct compute_context *context, const struct block_program *program,
                    const struct instr *instr, struct kernel *shape)
{
    if (!is_kernel(instr)) return false;
    return instr->kind == OP_CONTRACT ? contraction_shape(context, program, instr, shape)
                                      : attention_shape(context, program, instr, shape);
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
            const struct instr *instr = &block->instrs[i];
            if (!is_kernel(instr)) continue;
            // A GEMM that runs as one with others has a row of its own.
            struct compute_cost cost = instr->kind == OP_CONTRACT
                                           ? gemm_price(context, block, instr)
                                           : compute_price(context, block, instr);
            if (cost.s <= 0) continue;  // an earlier one does its work
            use.kernel_count++;
            if (!cost.measured) continue;
            use.price_count++;
            bool *used = &use.used[cost.measured - use.table->rows];
            assert(used >= use.used && used < use.used + use.table->row_count);
            use.row_count += !*used;
            *used = true;
        }
    }
    return use;
}
