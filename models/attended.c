#include "models/attended.h"

#include "models/op.h"

#include <assert.h>
#include <math.h>

// The keys have a name of their own where they are repeated for the heads.
static int64_t keys_of(const struct block *block, const struct op *op, int64_t seq)
{
    const struct tensor *keys = &block->tensors[op->inputs[1]];
    int at = tensor_find_dim(keys, DIM_KV_SEQ);
    if (at < 0) at = tensor_find_dim(keys, DIM_SEQ);
    assert(at >= 0);
    return keys->extents[at].size > 0 ? keys->extents[at].size : seq;
}

static double last_size(const struct block *block, int tensor)
{
    const struct tensor *of = &block->tensors[tensor];
    return (double)of->extents[of->rank - 1].size;
}

static bool is_product(const struct op *op)
{
    return op->kind == OP_ATTENTION || (op->kind == OP_CONTRACT && op->class == OP_CLASS_ATTENTION);
}

// What each token says of every row of a table (models/families/disentangled.c).
static double rows_flop(const struct tensor *rows, const struct tensor *tokens, int64_t seq)
{
    double flop = 2;
    for (int i = 0; i < rows->rank; i++)
        flop *= (double)rows->extents[i].size;
    int64_t count = tokens->extents[1].size;
    return flop * (double)(count > 0 ? count : seq);
}

double attended_flop(const struct block *block, const struct op *op, int64_t seq)
{
    if (!is_product(op)) return 0;
    const struct tensor *query = &block->tensors[op->inputs[0]];
    int head = tensor_find_dim(query, DIM_HEAD), at = tensor_find_dim(query, DIM_SEQ);
    assert(head >= 0);
    bool is_table = tensor_find_dim(query, DIM_TABLE) >= 0;
    if (is_table) return rows_flop(query, &block->tensors[op->inputs[1]], seq);
    int64_t queries = at < 0 ? 1 : query->extents[at].size;
    if (queries == 0) queries = seq;
    double width = last_size(block, op->inputs[1]);
    if (op->kind == OP_ATTENTION) width += last_size(block, op->inputs[2]);
    double pairs = op_attended_pairs(op, queries, keys_of(block, op, seq));
    return 2.0 * (double)query->extents[head].size * width * pairs;
}

// Keys that a query sees in the mean, in chunks of `window` tokens and documents of `tokens` that
// begin independently of one another: the mean of the smaller of two uniform numbers.
static double seen_in_chunks(double window, double tokens)
{
    double less = fmin(window, tokens), more = fmax(window, tokens);
    return less / 2 - less * less / (6 * more);
}

double attended_share(const struct op *op, int64_t keys, double tokens)
{
    double all = (double)keys;
    if (!op->causal || op->prefix > 0 || tokens <= 0 || tokens >= all) return 1;
    int64_t seen_most = op_seen_most(op);
    bool has_window = seen_most > 0 && seen_most < keys;
    double window = has_window ? (double)seen_most : all, most = fmin(window, tokens);
    double seen = has_window && op->chunked ? seen_in_chunks(window, tokens)
                                            : most - most * most / (2 * tokens);
    return fmin(1, seen / op_attended_pairs(op, 1, keys));
}

double attended_masked_flop(const struct graph *graph, int64_t seq, double tokens)
{
    double flop = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->phase != PHASE_FORWARD || !is_product(op)) continue;
            double share = attended_share(op, keys_of(block, op, seq), tokens);
            flop += 3 * (1 - share) * attended_flop(block, op, seq);
        }
    }
    return flop;
}
