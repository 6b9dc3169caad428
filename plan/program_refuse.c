#include "plan/program.h"

#include "models/adapters.h"
#include "models/op_linear_loss.h"
#include "plan/video_check.h"

#include <assert.h>

// What no plan of a model, or for a cluster, can have: asked before there is any.

// Tokens of the longest entry that some layer pools; 0 where none does.
static int64_t longest_entry(const struct graph *graph)
{
    int64_t longest = 0;
    for (int b = 0; b < graph->block_count; b++) {
        for (int o = 0; o < graph->blocks[b].op_count; o++) {
            const struct op *op = &graph->blocks[b].ops[o];
            if (op->kind == OP_POOL && op->rate > longest) longest = op->rate;
        }
    }
    return longest;
}

bool program_check_seq_len(const struct graph *graph, const struct workload *workload,
                           struct err *err)
{
    if (!video_check_seq_len(graph, workload, err)) return false;
    if (workload->seq_len < graph->prefix)
        return err_set(
            err, ERR_USAGE,
            "--seq-len %lld: a picture of %s takes %lld places of each sequence; give as "
            "many at least",
            (long long)workload->seq_len, graph->name, (long long)graph->prefix);
    if (workload->seq_len < longest_entry(graph))
        return err_set(err, ERR_USAGE,
                       "--seq-len %lld: a layer of %s pools %lld tokens to an entry; give as many "
                       "at least",
                       (long long)workload->seq_len, graph->name, (long long)longest_entry(graph));
    if (graph->seq_len_max != 1 || workload->seq_len == 1) return true;
    return err_set(err, ERR_USAGE,
                   "--seq-len %lld: %s reads samples, not sequences; leave it out (or give 1)",
                   (long long)workload->seq_len, graph->name);
}

bool program_check_lora(const struct graph *graph, struct adapters lora, struct err *err)
{
    if (lora.rank == 0) return true;
    const char *misfit = adapters_misfit(graph);
    if (misfit)
        return err_set(err, ERR_USAGE,
                       "--lora: %s has %s, which are not planned with frozen weights", graph->name,
                       misfit);
    if (adapters_reach(graph, lora)) return true;
    return err_set(err, ERR_USAGE, "--lora: %s has none of the projections named", graph->name);
}

// A product in 8 bits has one factor for all rows that it reads. Ranks that share a kv head are
// neighbours, and so are those that have one part.
static bool relay_check(const struct graph *graph, const struct workload *workload,
                        const struct parallel *parallel, struct err *err)
{
    int parts = parallel->tp_relay, tp = parallel->degree[AXIS_TP];
    if (parts < 2) return true;
    if (precision_bytes(workload->precision) < 2)
        return err_set(err, ERR_USAGE,
                       "--tp-relay: not with --precision fp8 and fp4, whose casts are of all that "
                       "tp gathers");
    if (parallel_has_meshes(parallel))
        return err_set(err, ERR_USAGE, "--tp-relay: not with stages of unlike meshes");
    if (parts >= tp || parallel->tp_kind != TP_1D) return true;
    int each = tp / parts, sharing = 1;
    while (graph->kv_head_count > 0 && graph->kv_head_count % (tp / sharing) != 0)
        sharing++;
    assert(sharing <= tp && "of one rank a head is its own");
    if (tp % parts == 0 && (each % sharing == 0 || sharing % each == 0)) return true;
    return err_set(err, ERR_USAGE,
                   "--tp-relay %d: tp %d is not cut in so many parts; %d always work", parts, tp,
                   tp);
}

static bool loss_check(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    if (parallel->loss_chunks < 2) return true;
    if (parallel->tp_kind != TP_1D)
        return err_set(err, ERR_USAGE,
                       "--loss-chunks: not with --tp-kind %s, whose ranks hold parts of what the "
                       "scores are sums over",
                       tp_kind_name(parallel->tp_kind));
    struct arena arena = {0};
    bool has_other = false, has_joined = false;
    for (int b = 0; b < graph->block_count; b++) {
        for (int o = 0; o < graph->blocks[b].op_count; o++) {
            has_other |= graph->blocks[b].ops[o].kind == OP_LOSS;
            has_joined |= graph->blocks[b].ops[o].kind == OP_LINEAR_LOSS;
        }
    }
    struct graph copy = *graph;
    copy.blocks = ARENA_COPY(&arena, struct block, graph->blocks, graph->block_count);
    bool is_right = has_joined && !has_other;
    if (!is_right) is_right = match_loss_graph(&arena, &copy, parallel->loss_chunks);
    arena_free(&arena);
    return is_right || err_set(err, ERR_USAGE,
                               "--loss-chunks: the loss of %s is not of the scores of one matrix "
                               "alone (a soft cap, a bias or a loss of another kind)",
                               graph->name);
}

bool parts_check(const struct graph *graph, const struct workload *workload,
                 const struct parallel *parallel, struct err *err)
{
    return relay_check(graph, workload, parallel, err) && loss_check(graph, parallel, err);
}

// Whether the ranks that share an expert's weights are of more than one replica.
static bool experts_span_replicas(const struct parallel *parallel)
{
    int64_t inside = 1;
    for (int i = 0; i < parallel->order_count && parallel->order[i] != AXIS_DP; i++)
        if (parallel->order[i] != AXIS_PP) inside *= parallel->degree[parallel->order[i]];
    return parallel->degree[AXIS_ETP] > inside;
}

// What every micro-batch exchanges between replicas needs as many of them everywhere, and chunks
// of a stage end their gradients at places of the schedule that depend on their number.
bool program_check_replicas(const struct parallel *parallel, struct err *err)
{
    const char *why = NULL;
    if (parallel->zero > 1) why = "--zero 2 and 3, which gather or scatter in every micro-batch";
    if (parallel->degree[AXIS_EP] > 1) why = "--ep above 1, which exchanges in every micro-batch";
    if (experts_span_replicas(parallel))
        why = "an --etp that takes ranks of dp, which exchange in every micro-batch";
    if (parallel->vpp > 1) why = "--vpp above 1";
    if (!why) return true;
    return err_set(err, ERR_USAGE, "--replica-batches: not with %s", why);
}
