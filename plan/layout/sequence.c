#include "plan/layout/sequence.h"

#include "models/op.h"
#include "models/op_scan.h"
#include "plan/layout/strategy.h"
#include "plan/lower/joins.h"

// Whether an operator wants the tokens of a slice to be neighbours, or all of a sequence in order.
static bool wants_order(const struct block *block, const struct op *op)
{
    bool is_written_out = op_has_dim(block, op, DIM_KV_SEQ),
         is_attention = op->kind == OP_ATTENTION;
    bool is_unknown = op->kind == OP_PRODUCT || op->kind == OP_OPERATOR;
    if (is_written_out) return true;
    if (is_attention)
        return !op->causal || op->chunked || op->prefix > 0 || op->top_k > 0 ||
               op_keys_dim(block, op) != DIM_SEQ;
    if (!op_has_dim(block, op, DIM_SEQ)) return false;
    return is_unknown || op->kind == OP_CHOOSE || op_mixes_tokens(op->kind) ||
           op_rule(op->kind)->split(block, op, DIM_SEQ) == SPLIT_NO;
}

// Queries of windows all see the same number of keys, and of slices in order none but those of few
// ranks: halves gain where some attention sees a whole sequence.
static bool gains(const struct graph *graph, int64_t seq_len)
{
    bool sees_all = false;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (wants_order(block, op)) return false;
            bool is_wide = op->window <= 0 || op->window >= seq_len;
            sees_all |= op->kind == OP_ATTENTION && is_wide;
        }
    }
    return sees_all;
}

struct sequence_order sequence_order_of(const struct graph *graph, const struct workload *workload,
                                        const struct parallel *parallel, unsigned joins)
{
    const struct technique *technique = technique_of(parallel, AXIS_CP);
    int64_t ranks = parallel->degree[AXIS_CP], pieces = 2 * ranks;
    // With a capacity the later tokens of a sequence find no room.
    bool may_be = joins >> JOIN_HALVES & 1 && ranks > 1 && technique && technique->streams &&
                  workload->seq_len % pieces == 0 && workload->capacity_factor <= 0;
    if (!may_be || !gains(graph, workload->seq_len)) return (struct sequence_order){0};
    return (struct sequence_order){workload->seq_len / pieces, ranks};
}
