#include "plan/lower/lowering.h"

#include <assert.h>
#include <string.h>

// What lowering asks of a block on every call, answered once.

bool lowering_is_recomputed(const struct op *op, enum recompute recompute, unsigned classes)
{
    if (recompute == RECOMPUTE_PER_OP) return op->remade;
    if (recompute != RECOMPUTE_SELECTIVE) return recompute == RECOMPUTE_FULL;
    if (classes == 0) classes = 1u << OP_CLASS_ATTENTION;
    return op->class != OP_CLASS_NONE && classes >> op->class & 1;
}

bool lowering_is_region(enum op_class class)
{
    return class == OP_CLASS_ATTENTION;
}

// A forward tensor is kept when backward reads it, unless it is made again in time: by an op of a
// class whose results are dropped, or inside a region, whose results are kept for others. What
// recomputed ops read and do not make themselves is kept for them.
bool *lowering_saved(struct arena *arena, const struct differentiated *facts,
                     enum recompute recompute, unsigned classes)
{
    const struct block *block = facts->block;
    bool *saved = ARENA_NEW(arena, bool, block->tensor_count);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *reader = &block->ops[o];
        bool recomputed =
            lowering_is_recomputed(&block->ops[reader->forward_op], recompute, classes);
        if (o < facts->forward_op_count && !recomputed) continue;
        for (int i = 0; i < reader->input_count; i++) {
            const struct tensor *tensor = &block->tensors[reader->inputs[i]];
            const struct op *producer = tensor->producer < 0 ? NULL : &block->ops[tensor->producer];
            bool is_made_again = producer && lowering_is_recomputed(producer, recompute, classes);
            bool is_dropped = is_made_again && !lowering_is_region(producer->class);
            if (tensor->role != TENSOR_ACTIVATION) continue;
            if (!is_dropped && !(recomputed && is_made_again)) saved[reader->inputs[i]] = true;
        }
    }
    return saved;
}

static int count_readers(const struct block *block, int tensor)
{
    int count = 0;
    for (int o = 0; o < block->op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++) {
            count += block->ops[o].inputs[i] == tensor;
        }
    }
    return count;
}

// GEMMs that a sum of these terms would find partial under a row split.
static int count_products(const struct block *block, const struct block_sum *sum)
{
    int count = 0;
    for (int i = 0; i < sum->input_count; i++) {
        int producer = block->tensors[sum->inputs[i]].producer;
        enum op_kind kind = producer >= 0 ? block->ops[producer].kind : OP_ADD;
        count += kind == OP_CONTRACT || kind == OP_COMBINE;
    }
    return count;
}

// Splices the terms of a sum in the place where another sum reads it.
static bool splice(struct block_sum *into, int at, const struct block_sum *terms)
{
    int count = into->input_count - 1 + terms->input_count;
    if (count > OP_INPUT_MAX) return false;
    struct block_sum from = *into;
    into->input_count = 0;
    for (int i = 0; i < from.input_count; i++) {
        bool here = i == at;
        int width = here ? terms->input_count : 1;
        const int *inputs = here ? terms->inputs : &from.inputs[i];
        memcpy(into->inputs + into->input_count, inputs, (size_t)width * sizeof *inputs);
        into->input_count += width;
    }
    assert(into->input_count == count);
    return true;
}

// A tree of forward sums becomes one sum where it joins several GEMMs (parallel attention and
// MLP), whatever biases stand between: their partial sums are then added up before one reduction.
static void fold_sums(const struct differentiated *facts)
{
    const struct block *block = facts->block;
    for (int o = 0; o < facts->forward_op_count; o++) {
        if (block->ops[o].kind != OP_ADD) continue;
        struct block_sum sum = facts->sums[o];
        int inner[OP_INPUT_MAX], inner_count = 0;
        for (int i = 0; i < sum.input_count; i++) {
            int t = sum.inputs[i], producer = block->tensors[t].producer;
            bool is_inner = producer >= 0 && block->ops[producer].kind == OP_ADD &&
                            count_readers(block, t) == 1 && !facts->is_output[t];
            // A sum that was folded itself keeps no terms of its own.
            if (!is_inner || facts->sums[producer].input_count == 0) continue;
            if (splice(&sum, i, &facts->sums[producer])) inner[inner_count++] = producer, i--;
        }
        if (inner_count == 0 || count_products(block, &sum) < 2) continue;
        facts->sums[o] = sum;
        for (int i = 0; i < inner_count; i++)
            facts->sums[inner[i]].input_count = 0;
    }
}

// 0, or a number that the weights of contractions which share their input have in common; their
// biases have another.
static int sharing_of(const struct differentiated *facts, int parameter)
{
    const struct block *block = facts->block;
    if (tensor_find_dim(&block->tensors[parameter], DIM_EXPERT) >= 0) return 0;
    for (int o = 0; o < facts->forward_op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op->input_count != 2 || op->inputs[1] != parameter) continue;
        if (op->kind == OP_CONTRACT) return 2 * op->merge;
        int producer = block->tensors[op->inputs[0]].producer;
        int merge = producer >= 0 ? block->ops[producer].merge : 0;
        return op->kind == OP_ADD && merge ? 2 * merge + 1 : 0;
    }
    return 0;
}

// In the order of their tensors, but that what one GEMM can read stands one behind another.
static void list_parameters(struct arena *arena, const struct block *forward,
                            struct differentiated *facts)
{
    bool *is_listed = ARENA_NEW(arena, bool, forward->tensor_count);
    facts->parameters = ARENA_NEW(arena, int, forward->tensor_count);
    for (int t = 0; t < forward->tensor_count; t++) {
        if (facts->block->tensors[t].role != TENSOR_PARAMETER || is_listed[t]) continue;
        facts->parameters[facts->parameter_count++] = t;
        int sharing = sharing_of(facts, t);
        for (int u = t + 1; u < forward->tensor_count && sharing; u++) {
            bool is_parameter = facts->block->tensors[u].role == TENSOR_PARAMETER;
            if (!is_parameter || is_listed[u] || sharing_of(facts, u) != sharing) continue;
            facts->parameters[facts->parameter_count++] = u;
            is_listed[u] = true;
        }
    }
}

static bool is_exchange(enum op_kind kind)
{
    return kind == OP_ROUTE || kind == OP_DISPATCH || kind == OP_COMBINE;
}

// A sum of what is kept and may be partial: its terms are reduced before they can be kept, which
// sums are.
static bool adds_kept(const struct block *block, const struct op *op)
{
    for (int i = 0; i < op->input_count && op->kind == OP_ADD; i++) {
        int producer = block->tensors[op->inputs[i]].producer;
        if (producer < 0) continue;
        const struct op *term = &block->ops[producer];
        bool may_be_partial = term->kind == OP_CONTRACT || term->kind == OP_COMBINE;
        if (may_be_partial && !term->remade) return true;
        if (term->kind == OP_ADD && adds_kept(block, term)) return true;
    }
    return false;
}

// Operators that are checkpointed one by one (torchtitan's distributed/activation_checkpoint.py:
// _op_sac_save_list and _custom_policy): fused attention, exchanges and products are kept, but of
// the products, counted through the layer, every second one; the rest is made again. Products of
// experts, which run as grouped ones, are not on the list. Routing is kept here, so that nothing
// is routed twice, and so are masks of dropout.
static void mark_remade(struct block *block, int forward_op_count)
{
    int product = 0;
    for (int o = 0; o < forward_op_count && block->role == BLOCK_LAYER; o++) {
        struct op *op = &block->ops[o];
        bool is_core = op->kind == OP_ATTENTION || op->class == OP_CLASS_ATTENTION;
        bool is_grouped = tensor_find_dim(&block->tensors[op->outputs[0]], DIM_EXPERT) >= 0;
        bool is_product = op->kind == OP_CONTRACT && !is_core && !is_grouped;
        bool is_kept = is_core || is_exchange(op->kind) || op->kind == OP_DROPOUT ||
                       op->kind == OP_GATHER || op_is_loss(op->kind) || op->kind == OP_PRODUCT ||
                       op->kind == OP_OPERATOR || adds_kept(block, op);
        if (is_product) product++;
        op->remade = is_product ? product % 2 == 0 : !is_kept;
    }
}

void block_differentiate(struct arena *arena, const struct block *forward,
                         struct differentiated *facts)
{
    *facts = (struct differentiated){.forward_op_count = forward->op_count};
    struct block *made = autodiff_block(arena, forward, &facts->gradients);
    mark_remade(made, forward->op_count);
    const struct block *block = facts->block = made;
    assert(block->op_count >= forward->op_count);
    facts->sums = ARENA_NEW(arena, struct block_sum, block->op_count);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        memcpy(facts->sums[o].inputs, op->inputs, sizeof op->inputs);
        facts->sums[o].input_count = op->input_count;
    }
    facts->is_output = ARENA_NEW(arena, bool, block->tensor_count);
    for (int i = 0; i < block->output_count; i++)
        facts->is_output[block->outputs[i]] = true;
    fold_sums(facts);
    list_parameters(arena, forward, facts);
}

struct graph_gradients *graph_differentiate(struct arena *arena, const struct graph *graph)
{
    struct graph_gradients *gradients = ARENA_NEW(arena, struct graph_gradients, 1);
    gradients->block_count = graph->block_count;
    gradients->blocks = ARENA_NEW(arena, struct differentiated, graph->block_count);
    for (int b = 0; b < graph->block_count; b++) {
        block_differentiate(arena, &graph->blocks[b], &gradients->blocks[b]);
    }
    return gradients;
}
