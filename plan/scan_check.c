#include "plan/scan_check.h"

#include <assert.h>

bool kv_heads_share(int64_t kv_heads, int64_t ranks)
{
    assert(kv_heads >= 0 && ranks >= 1);
    return kv_heads == 0 || (kv_heads < ranks ? ranks % kv_heads == 0 : kv_heads % ranks == 0);
}

bool scan_shares(const struct graph *graph, int64_t ranks)
{
    assert(ranks >= 1);
    int64_t groups = graph->scan_group_count;
    if (graph->out_group_count % ranks != 0) return false;
    if (graph->has_group_norm && groups % ranks != 0) return false;
    return graph->scan_head_count % ranks == 0 && kv_heads_share(groups, ranks);
}

bool scan_refuse_tp(const struct graph *graph, int tp, const char *nearest, struct err *err)
{
    if (graph->out_group_count % tp != 0)
        return err_set(err, ERR_USAGE,
                       "--tp %d: %lld groups of heads, which are projected apart, cannot be split "
                       "by %d; %s",
                       tp, (long long)graph->out_group_count, tp, nearest);
    return err_set(err, ERR_USAGE,
                   "--tp %d: %lld heads in %lld groups, over which layers scan, cannot be "
                   "split by %d; %s",
                   tp, (long long)graph->scan_head_count, (long long)graph->scan_group_count, tp,
                   nearest);
}

// A table of what heads add to scores, as t5's distances: exchanged for heads, its columns are
// split.
static bool has_table_of_heads(const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_GATHER || op->input_count < 2) continue;
            if (tensor_find_dim(&block->tensors[op->inputs[1]], DIM_HEAD) >= 0) return true;
        }
    }
    return false;
}

// A number a head that attention adds to its scores: exchanged for heads, it is split.
static bool has_sinks(const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            bool attends = op->kind == OP_ATTENTION || op->kind == OP_SOFTMAX;
            if (!attends && op->kind != OP_POOLED) continue;
            for (int i = 0; i < op->input_count; i++)
                if (block->tensors[op->inputs[i]].role == TENSOR_PARAMETER) return true;
        }
    }
    return false;
}

// Rows of a table that every head makes something of (models/families/disentangled.c).
static bool has_distances(const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_GATHER || op->input_count < 2) continue;
            if (block->tensors[op->inputs[1]].role == TENSOR_ACTIVATION) return true;
        }
    }
    return false;
}

// Weights that make keys of tokens and of distances would be read whole for the ones, and by the
// heads that a rank has of the others.
static bool check_distances(const struct graph *graph, const struct parallel *parallel,
                            struct err *err)
{
    bool exchanges = parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_ULYSSES;
    bool is_grid = parallel->tp_kind != TP_1D;
    if (!(exchanges || is_grid) || !has_distances(graph)) return true;
    if (exchanges)
        return err_set(err, ERR_USAGE,
                       "--cp-kind ulysses: keys and queries of distances are made for all heads of "
                       "a rank of tp; ring and allgather work");
    return err_set(err, ERR_USAGE,
                   "--tp-kind %s: the model has a table of distances, which no grid splits; only "
                   "1d works",
                   tp_kind_name(parallel->tp_kind));
}

bool scan_leaves_shards(const struct graph *graph, const struct parallel *parallel)
{
    if (parallel->degree[AXIS_CP] == 1 || parallel->zero < 2) return true;
    if (graph->scan_head_count > 0) return false;
    return parallel->cp_kind != CP_ULYSSES || !(has_table_of_heads(graph) || has_sinks(graph));
}

// The state behind a part of a sequence would have to pass from rank to rank.
bool scan_check_cp(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    bool scans = graph->scan_head_count > 0;
    if (!check_distances(graph, parallel, err)) return false;
    if (parallel->degree[AXIS_CP] == 1) return true;
    if (scans && parallel->cp_kind != CP_ULYSSES)
        return err_set(err, ERR_USAGE,
                       "--cp-kind %s: layers that scan want whole sequences, of some of their "
                       "heads; only ulysses works",
                       cp_kind_name(parallel->cp_kind));
    if (scan_leaves_shards(graph, parallel)) return true;
    const char *what = scans ? "scans" : has_sinks(graph) ? "sinks" : "distances";
    // Refused in these words where it would run, too (memory/plan_script_make.c).
    return err_set(err, ERR_USAGE,
                   "--zero %d: the weights of %s are split over cp, over which zero %d shards as "
                   "well; zero 0 or 1 would run",
                   parallel->zero, what, parallel->zero);
}
