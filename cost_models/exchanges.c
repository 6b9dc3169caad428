#include "cost_models/exchanges.h"
#include "cost_models/gemm.h"
#include "cost_models/offload.h"

#include <assert.h>

// Where a token goes in an exchange of the rows of experts, if the stack's library knows which of
// its experts share a place.
static struct routing routing_of(const struct price_context *context,
                                 const struct block_program *program, const struct instr *instr)
{
    bool is_exchange = instr->ragged && instr->collective == COLLECTIVE_ALL_TO_ALL;
    if (!is_exchange || !context->compute.stack->dispatch_once) return (struct routing){0};
    for (int i = 0; i < program->block->op_count; i++) {
        const struct op *op = &program->block->ops[i];
        if (op->kind != OP_ROUTE) continue;
        return (struct routing){op->top_k, op->group_count, op->open_groups};
    }
    return (struct routing){0};
}

// Gradients travel in the width in which the stack reduces them, parameters in the run's.
static double reduced_bytes(const struct price_context *context, const struct instr *instr)
{
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, context->compute.precision);
    return (double)instr->bytes *
           stack_reduce_bytes(context->compute.stack, context->compute.precision) / width;
}

// Operands of low-precision GEMMs are quantised before they are gathered.
static bool is_gathered_low_precision(const struct price_context *context,
                                      const struct block_program *program,
                                      const struct instr *gather)
{
    const struct compute_context *compute = &context->compute;
    bool may_be = compute->stack->low_precision_gathers && precision_bytes(compute->precision) < 2;
    if (!may_be || gather->parent != AXIS_TP || gather->inner > 0) return false;
    bool is_low_precision = false;
    for (const struct instr *at = gather + 1; at < program->instrs + program->instr_count; at++) {
        for (int i = 0; i < at->input_count; i++) {
            if (at->inputs[i] != gather->outputs[0]) continue;
            if (!gemm_is_low_precision(compute, program, at)) return false;
            is_low_precision = true;
        }
    }
    return is_low_precision;
}

// The products of a relay that stand beside a message on one side, up to the next.
static double products_s(const struct price_context *context, const struct block_program *program,
                         const struct instr *relay, int step)
{
    double s = 0;
    const struct instr *end = program->instrs + program->instr_count;
    for (const struct instr *at = relay + step; at >= program->instrs && at < end; at += step) {
        if (at->relay != relay->relay || at->collective == COLLECTIVE_SEND_RECV) break;
        if (at->rows) s += compute_price(&context->compute, program, at).s;
    }
    return s;
}

// While a part is handed on products run that read it, which stand behind it, or, of a sum, that
// make the next part, in front of it.
static double beside_s(const struct price_context *context, const struct block_program *program,
                       const struct instr *relay)
{
    const struct instr *before = relay - 1;
    bool sums = before >= program->instrs && before->relay == relay->relay &&
                before->rows > before->input_count;
    return products_s(context, program, relay, sums ? -1 : 1);
}

// Only relays in pairs (plan/lower/relay_pair.c) skew buffers by rank.
static bool is_paired(const struct block_program *program, const struct instr *message)
{
    return program->buffers[message->inputs[0]].skew_axes != 0 ||
           program->buffers[message->outputs[0]].skew_axes != 0;
}

// The turn of a pair whose products run beside a message: what they read comes a turn ahead, and
// what they make goes a turn behind.
static int turn_beside(const struct block_program *program, const struct instr *message)
{
    const struct buffer *to = &program->buffers[message->outputs[0]];
    bool brings = to->skew_axes && !to->is_own;
    return brings ? to->behind - 1 : program->buffers[message->inputs[0]].behind + 1;
}

// Of a turn's products the share of one of the messages beside them, which are of one stream.
static double pair_beside_s(const struct price_context *context,
                            const struct block_program *program, const struct instr *message)
{
    int turn = turn_beside(program, message);
    double s = 0, bytes = 0;
    for (const struct instr *at = program->instrs; at < program->instrs + program->instr_count;
         at++) {
        if (at->relay != message->relay) continue;
        if (at->rows && program->buffers[instr_part(at)].behind == turn)
            s += compute_price(&context->compute, program, at).s;
        if (at->collective == COLLECTIVE_SEND_RECV && turn_beside(program, at) == turn)
            bytes += (double)at->bytes;
    }
    return s * (double)message->bytes / bytes;
}

struct exchange exchange_of(const struct price_context *context,
                            const struct block_program *program, const struct instr *instr)
{
    assert(instr->collective != COLLECTIVE_NONE && !instr->streamed);
    struct exchange exchange = {.phase = instr->phase,
                                .part = part_of_axis(instr->parent),
                                .overlap = axis_overlap(instr->parent),
                                .collective = instr->collective,
                                .axes = instr->axes,
                                .bytes = (double)instr->bytes,
                                .share = 1,
                                .instr = 1 + (int)(instr - program->instrs)};
    if (instr->relay) {
        bool pairs = is_paired(program, instr);
        exchange.is_relay = true;
        exchange.beside_s =
            pairs ? pair_beside_s(context, program, instr) : beside_s(context, program, instr);
        // A turn takes as long as its longest message, though some ranks have none in it.
        if (pairs) exchange.bytes = (double)program->buffers[instr->inputs[0]].bytes;
        return exchange;
    }
    if (!instr->parameter) {
        exchange.routing = routing_of(context, program, instr);
        bool gathers = instr->collective == COLLECTIVE_ALL_GATHER;
        if (gathers && is_gathered_low_precision(context, program, instr))
            exchange.bytes *= precision_bytes(context->compute.precision) / 2.0;
        return exchange;
    }
    if (instr->collective == COLLECTIVE_FETCH) {
        exchange.part = PART_OFFLOAD;
        exchange.overlap = OVERLAP_PARAM_GATHER;
        exchange.kind = EXCHANGE_FETCH;
        exchange.deep = instr->deep;
        bool is_once = instr->phase == PHASE_FORWARD && program->weights_rounds > 0;
        if (is_once) exchange.share = 1.0 / program->weights_rounds;
        return exchange;
    }
    // Shards of parameters are data parallel, whatever axes they span (cp beside dp, or alone).
    exchange.part = PART_DP;
    exchange.overlap = 0;
    exchange.kind = EXCHANGE_GATHER;
    if (instr->collective != COLLECTIVE_ALL_GATHER) {
        exchange.kind = EXCHANGE_SCATTER;
        exchange.bytes = reduced_bytes(context, instr);
    }
    return exchange;
}

double exchange_sync_s(const struct price_context *context, const struct mesh *mesh,
                       const struct exchange *exchange)
{
    const struct stack *stack = context->compute.stack;
    if (stack->pipeline_sync_s <= 0 && stack->node_sync_s <= 0) return 0;
    if (exchange->kind != EXCHANGE_ACTIVATION || exchange->part != PART_TP) return 0;
    assert(exchange->share > 0 && exchange->share <= 1);
    unsigned stages = mesh_axes_of(mesh, AXIS_PP);
    double sync_s =
        stack->node_sync_s * (price_group(context, mesh, exchange->axes).node_count - 1);
    if (stages && price_group(context, mesh, stages).node_count > 1)
        sync_s += stack->pipeline_sync_s * mesh_size(mesh, exchange->axes);
    return sync_s * exchange->share;
}

struct collective_cost exchange_fetch_cost(const struct price_context *context,
                                           const struct exchange *exchange)
{
    enum tier tier = exchange->deep ? TIER_NVME : TIER_HOST;
    return (struct collective_cost){.s = copies_s(context, tier, exchange->bytes, 1)};
}
