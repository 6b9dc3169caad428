#include "cost_models/choosing.h"
#include "cost_models/attention_unfused.h"
#include "cost_models/gemm.h"
#include "plan/choose_parts.h"

#include <assert.h>
#include <math.h>

// Of our back end for GPUs alone: other software is priced by its FLOP (choose_price).
static bool choosing_is_own(const struct stack *stack, const struct instr *instr)
{
    return instr->kind == OP_CHOOSE && instr->collective == COLLECTIVE_NONE &&
           stack_is_own_gpu(stack);
}

// A product of heads and keys for so many queries, which writes 4 bytes a number, and the kernel
// that reads what is seen of them and writes and reads their sum.
struct compute_cost choosing_price(const struct compute_context *context, const struct instr *instr,
                                   const struct compute_cost *stream)
{
    struct compute_context wide = *context;
    wide.precision = wide_precision(context->device, context->precision);
    double launch_s = context->device->launch_latency_s, products_s = 0, launches = 0;
    double narrow_bytes = precision_bytes(wide.precision);
    int64_t queries = instr->seq, keys = instr->kv_seq, heads = instr->heads;
    int64_t some = choose_queries(queries, heads, keys);
    assert(some > 0 && "parts have queries");
    for (int64_t first = 0; first < queries; first += some) {
        enum bound bound;
        int64_t left = queries - first, count = some < left ? some : left;
        const struct gemm gemm = {1, count * heads, keys, instr->head_dim};
        double wide_bytes = (double)(count * heads) * (double)keys * (sizeof(float) - narrow_bytes);
        products_s += gemm_s(&wide, &gemm, 0, &bound) + stream_s(context, wide_bytes);
        launches += 2;
    }
    double batch = (double)instr->batch;
    double pairs = instr->flop / ((double)heads * (2.0 * (double)instr->head_dim + 3));
    double bytes = sizeof(float) * pairs * ((double)heads + 2);
    double kernels_s = stream_s(context, bytes) + batch * launches / 2 * launch_s;
    double s = batch * products_s + kernels_s + stream->s - launch_s * stream->kernel_count;
    return (struct compute_cost){.s = s, .bound = BOUND_MEMORY, .kernel_count = batch * launches};
}

// The CUDA back end has no kernel that skips keys which were not chosen: it masks them.
static bool attends_to_all(const struct stack *stack, const struct block *block,
                           const struct instr *instr)
{
    bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
    return stack_is_own_gpu(stack) && attends && instr->collective == COLLECTIVE_NONE &&
           block->ops[instr->op].top_k > 0;
}

// A number of 16 bits for each query and key is written, and read with each pair of each head that
// is met.
struct instr attended_instr(const struct stack *stack, const struct block *block,
                            const struct instr *instr)
{
    struct instr met = *instr;
    if (!attends_to_all(stack, block, instr)) return met;
    const struct op *op = &block->ops[instr->op];
    struct op all = *op;
    all.top_k = 0;
    double pairs = op_attended_pairs(&all, instr->seq, instr->kv_seq);
    assert(pairs > 0 && pairs >= op_attended_pairs(op, instr->seq, instr->kv_seq) * (1 - 1e-9));
    met.window = op->window;
    met.flop *= pairs / op_attended_pairs(op, instr->seq, instr->kv_seq);
    met.read_bytes += (int64_t)(2 * pairs * (double)(instr->batch * instr->heads));
    met.write_bytes += instr->batch * instr->seq * attended_row_bytes(instr->kv_seq);
    return met;
}

// Attention that meets all keys is cut so that the numbers for its pairs fit: a kernel and a mask
// for each part.
bool add_attended(const struct compute_context *context, const struct instr *instr, double blocks,
                  struct compute_cost *cost)
{
    assert(blocks >= 1 && (double)instr->kv_seq >= blocks);
    int64_t keys = instr->kv_seq / (int64_t)blocks;
    struct attended_part part = attended_part(instr->batch, instr->seq, keys);
    double parts = (double)attended_parts(instr->batch, instr->seq, keys);
    bool is_summed = instr->kind == OP_ATTENTION_BACKWARD && part.queries < instr->seq;
    // Of each part what is written, and but for the first what is there of one already.
    double kernels = blocks * parts + cost->kernel_count * (parts - 1);
    double bytes = 0;
    if (is_summed) {
        double row = (double)(instr->kv_heads * (instr->head_dim + instr->value_dim));
        double sums = (double)(instr->batch * instr->kv_seq) * row,
               each = parts / (double)instr->batch;
        kernels += blocks * (2 * parts + 2);
        bytes = sums * (each * (2 + 2 * sizeof(float)) + sizeof(float) + 2);
    }
    stream_beside(context, bytes, kernels, cost);
    return is_summed;
}

double choosing_bytes(const struct stack *stack, enum precision precision,
                      const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (attends_to_all(stack, block->block, instr) &&
            attention_unfused(stack, precision, block, instr) == UNFUSED_COUNT) {
            int64_t keys = streamed_input(block, instr) ? instr->seq : instr->kv_seq;
            int64_t row = instr->kv_heads * (instr->head_dim + instr->value_dim);
            bool is_backward = instr->kind == OP_ATTENTION_BACKWARD;
            bytes = fmax(bytes,
                         (double)attended_bytes(instr->batch, instr->seq, keys, row, is_backward));
        }
        if (!choosing_is_own(stack, instr)) continue;
        int64_t some = choose_queries(instr->seq, instr->heads, instr->kv_seq);
        bytes = fmax(bytes, (double)(some * choose_query_bytes(instr->heads, instr->kv_seq)));
    }
    return bytes;
}
