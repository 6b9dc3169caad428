#include "models/match.h"

#include <assert.h>
#include <string.h>

// Steps of one chain: two expansions each, products, softmax, dropout, and what scales the scores.
enum { CHAIN_MAX = 16 };

struct chain {
    const struct block *block;
    const int *readers;  // by tensor; leaving the block is one
    int dropped[CHAIN_MAX], dropped_count;
    int context;      // the op that the fused one replaces
    struct op fused;  // names, inputs and outputs still of the old block
};

static int *count_readers(struct arena *arena, const struct block *block)
{
    int *readers = ARENA_NEW(arena, int, block->tensor_count);
    for (int o = 0; o < block->op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++)
            readers[block->ops[o].inputs[i]]++;
    }
    for (int i = 0; i < block->output_count; i++)
        readers[block->outputs[i]]++;
    return readers;
}

static bool drop(struct chain *chain, int op)
{
    assert(op >= 0 && op < chain->block->op_count);
    if (chain->dropped_count == CHAIN_MAX) return false;
    chain->dropped[chain->dropped_count++] = op;
    return true;
}

static bool has_dims(const struct tensor *tensor, enum dim a, enum dim b, enum dim c, enum dim d)
{
    const enum dim wanted[] = {a, b, c, d};
    if (tensor->rank != 4) return false;
    for (int i = 0; i < 4; i++) {
        if (wanted[i] != DIM_NONE && tensor->extents[i].dim != wanted[i]) return false;
    }
    return true;
}

// A product of activations whose result has these scores, or is made of them.
static bool is_product(const struct op *op)
{
    return op->kind == OP_CONTRACT && op->merge == 0 && op->input_count == 2;
}

// The same dims under another name: values that are keys, which no chain makes.
static bool is_alias(const struct block *block, const struct op *op)
{
    const struct tensor *from = &block->tensors[op->inputs[0]];
    const struct tensor *to = &block->tensors[op->outputs[0]];
    for (int i = 0; i < to->rank; i++) {
        const struct extent *a = &from->extents[i], *b = &to->extents[i];
        if (a->dim != b->dim || a->size != b->size) return false;
    }
    return true;
}

// The tensor that was renamed and repeated into `tensor`, which is read here alone; -1 if none was.
static int keys_of(struct chain *chain, int tensor)
{
    const struct block *block = chain->block;
    int source = tensor;
    for (;;) {
        int producer = block->tensors[source].producer;
        if (producer < 0 || block->ops[producer].kind != OP_EXPAND) break;
        if (is_alias(block, &block->ops[producer])) break;
        // Another reader of what was repeated would lose it.
        if (chain->readers[source] != 1 || !drop(chain, producer)) return -1;
        source = block->ops[producer].inputs[0];
    }
    const struct tensor *keys = &block->tensors[source];
    // A tensor that was never renamed still has the keys' own dimension and is no k or v of ours.
    bool is_fit = source != tensor && has_dims(keys, DIM_BATCH, DIM_SEQ, DIM_NONE, DIM_NONE);
    return is_fit ? source : -1;
}

// What may stand between the product and the softmax, met from the end: the fused kernel scales,
// then caps, then adds the bias.
static bool take_function(struct op *fused, const struct op *op)
{
    bool is_unscaled = fused->scalar == 1;
    if (op->kind != OP_ELEMENTWISE || op->input_count != 1) return false;
    switch (op->function) {
    case FUNCTION_ALIBI:
        if (fused->alibi > 0 || fused->softcap > 0 || !is_unscaled) return false;
        fused->alibi = op->scalar;
        return true;
    case FUNCTION_SOFTCAP:
        if (fused->softcap > 0 || !is_unscaled) return false;
        fused->softcap = op->scalar;
        return true;
    case FUNCTION_SCALE:
        fused->scalar *= op->scalar;
        return true;
    default:
        return false;
    }
}

// From the scores up to the product of queries and keys.
static bool match_scores(struct chain *chain, int scores)
{
    const struct block *block = chain->block;
    const struct op *op;
    for (;;) {
        int producer = block->tensors[scores].producer;
        if (producer < 0 || chain->readers[scores] != 1 || !drop(chain, producer)) return false;
        op = &block->ops[producer];
        if (op->kind == OP_CONTRACT) break;
        if (!take_function(&chain->fused, op)) return false;
        scores = op->inputs[0];
    }
    const struct tensor *product = &block->tensors[scores];
    if (!is_product(op)) return false;
    if (!has_dims(product, DIM_BATCH, DIM_HEAD, DIM_SEQ, DIM_KV_SEQ)) return false;
    bool turned = tensor_find_dim(&block->tensors[op->inputs[0]], DIM_KV_SEQ) >= 0;
    int query = op->inputs[turned], key = op->inputs[!turned];
    const struct tensor *queries = &block->tensors[query];
    if (!has_dims(queries, DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_NONE)) return false;
    if (!has_dims(&block->tensors[key], DIM_BATCH, DIM_KV_SEQ, DIM_HEAD, queries->extents[3].dim)) {
        return false;
    }
    chain->fused.scalar *= op->scalar;
    chain->fused.inputs[0] = query;
    chain->fused.inputs[1] = keys_of(chain, key);
    return chain->fused.inputs[1] >= 0;
}

static int only_reader(const struct chain *chain, int tensor)
{
    assert(tensor >= 0 && tensor < chain->block->tensor_count);
    const struct block *block = chain->block;
    if (chain->readers[tensor] != 1) return -1;
    for (int o = 0; o < block->op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++) {
            if (block->ops[o].inputs[i] == tensor) return o;
        }
    }
    return -1;  // it leaves the block
}

// From the probabilities down to their product with the values.
static bool match_context(struct chain *chain, int probabilities)
{
    const struct block *block = chain->block;
    int reader = only_reader(chain, probabilities);
    if (reader >= 0 && block->ops[reader].kind == OP_DROPOUT) {
        const struct op *dropout = &block->ops[reader];
        if (chain->readers[dropout->outputs[1]] != 0 || !drop(chain, reader)) return false;
        chain->fused.dropout_ratio = dropout->dropout_ratio;
        probabilities = dropout->outputs[0];
        reader = only_reader(chain, probabilities);
    }
    if (reader < 0 || !is_product(&block->ops[reader]) || !drop(chain, reader)) return false;
    const struct op *product = &block->ops[reader];
    if (product->scalar != 1) return false;
    int value = product->inputs[product->inputs[0] == probabilities];
    const struct tensor *values = &block->tensors[value];
    const struct tensor *out = &block->tensors[product->outputs[0]];
    if (!has_dims(values, DIM_BATCH, DIM_KV_SEQ, DIM_HEAD, DIM_NONE)) return false;
    if (!has_dims(out, DIM_BATCH, DIM_SEQ, DIM_HEAD, values->extents[3].dim)) return false;
    chain->context = reader;
    chain->fused.outputs[0] = product->outputs[0];
    chain->fused.inputs[2] = keys_of(chain, value);
    return chain->fused.inputs[2] >= 0;
}

// The class and the mask are those of the softmax, whose rows the fused kernel keeps.
static bool match_chain(struct chain *chain, int softmax)
{
    const struct op *op = &chain->block->ops[softmax];
    if (op->kind != OP_SOFTMAX || op->phase != PHASE_FORWARD) return false;
    chain->fused = (struct op){.kind = OP_ATTENTION,
                               .scalar = 1,
                               .causal = op->causal,
                               .window = op->window,
                               .chunked = op->chunked,
                               .prefix = op->prefix,
                               .class = op->class,
                               .input_count = 3,
                               .output_count = 2};
    if (op->input_count > 2 || op->output_count > 1) return false;
    if (op->input_count == 2) chain->fused.inputs[chain->fused.input_count++] = op->inputs[1];
    return drop(chain, softmax) && match_scores(chain, op->inputs[0]) &&
           match_context(chain, op->outputs[0]);
}

static bool is_dropped(const struct chain *chain, int op)
{
    for (int i = 0; i < chain->dropped_count; i++) {
        if (chain->dropped[i] == op) return true;
    }
    return false;
}

// "attention.context" -> "attention.core".
static const char *sibling(struct arena *arena, const char *name, const char *suffix)
{
    const char *dot = strrchr(name, '.');
    int length = dot ? (int)(dot - name) : (int)strlen(name);
    return arena_print(arena, "%.*s.%s", length, name, suffix);
}

// The rows of the log-sum-exp: what the output has but its width.
static struct tensor row_tensor(struct arena *arena, const struct tensor *out)
{
    assert(out->rank > 1);
    struct tensor rows = *out;
    rows.name = sibling(arena, out->name, "lse");
    rows.element = ELEMENT_FP32;
    rows.extents[--rows.rank] = (struct extent){DIM_NONE, 0};
    return rows;
}

// Copies the tensors that stay, the new one right behind the output; `moved` gets the new indices.
static void move_tensors(struct arena *arena, const struct chain *chain, struct block *to,
                         int *moved)
{
    const struct block *block = chain->block;
    to->tensors = ARENA_NEW(arena, struct tensor, block->tensor_count + 1);
    to->tensor_count = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        bool is_output = t == chain->fused.outputs[0];
        moved[t] = -1;
        if (!is_output && tensor->producer >= 0 && is_dropped(chain, tensor->producer)) continue;
        moved[t] = to->tensor_count;
        to->tensors[to->tensor_count++] = *tensor;
        if (is_output) to->tensors[to->tensor_count++] = row_tensor(arena, tensor);
    }
    for (int i = 0; i < to->input_count; i++)
        to->inputs[i] = moved[to->inputs[i]];
    for (int i = 0; i < to->output_count; i++)
        to->outputs[i] = moved[to->outputs[i]];
}

static void append_op(struct block *to, const struct op *op, const int *moved)
{
    int index = to->op_count++;
    struct op *added = &to->ops[index];
    *added = *op;
    added->forward_op = index;
    for (int i = 0; i < op->input_count; i++)
        added->inputs[i] = moved[op->inputs[i]];
    for (int i = 0; i < op->output_count; i++) {
        added->outputs[i] = moved[op->outputs[i]];
        assert(added->outputs[i] >= 0);
        to->tensors[added->outputs[i]].producer = index;
    }
}

static struct block rewrite(struct arena *arena, struct chain *chain)
{
    const struct block *block = chain->block;
    assert(chain->context >= 0 && chain->fused.outputs[0] >= 0);
    struct block to = *block;
    int *moved = ARENA_NEW(arena, int, block->tensor_count + 1);
    move_tensors(arena, chain, &to, moved);
    int out = chain->fused.outputs[0], rows = block->tensor_count;
    moved[rows] = moved[out] + 1;
    chain->fused.outputs[1] = rows;
    chain->fused.name = sibling(arena, block->tensors[out].name, "core");

    to.ops = ARENA_NEW(arena, struct op, block->op_count);
    to.op_count = 0;
    for (int o = 0; o < block->op_count; o++) {
        assert(block->ops[o].phase == PHASE_FORWARD);
        if (o == chain->context) {
            append_op(&to, &chain->fused, moved);
        } else if (!is_dropped(chain, o)) {
            append_op(&to, &block->ops[o], moved);
        }
    }
    return to;
}

int match_attention(struct arena *arena, struct block *block)
{
    int count = 0;
    for (int o = 0; o < block->op_count; o++) {
        if (block->ops[o].kind != OP_SOFTMAX) continue;
        struct chain chain = {.block = block, .readers = count_readers(arena, block)};
        if (!match_chain(&chain, o)) continue;
        *block = rewrite(arena, &chain);
        assert(chain.dropped_count >= 3 && "two products and a softmax are one operator now");
        count++;
        o = -1;  // indices have moved
    }
    return count;
}

int match_attention_graph(struct arena *arena, struct graph *graph)
{
    int count = 0;
    for (int b = 0; b < graph->block_count; b++)
        count += match_attention(arena, &graph->blocks[b]);
    return count;
}
