#include "plan/scan_check.h"

bool kv_heads_share(int64_t kv_heads, int64_t ranks)
{
    return kv_heads == 0 || (kv_heads < ranks ? ranks % kv_heads == 0 : kv_heads % ranks == 0);
}

bool scan_shares(const struct graph *graph, int64_t ranks)
{
    int64_t groups = graph->scan_group_count;
    if (graph->has_group_norm && groups % ranks != 0) return false;
    return graph->scan_head_count % ranks == 0 && kv_heads_share(groups, ranks);
}

bool scan_leaves_shards(const struct graph *graph, int cp, int zero)
{
    return graph->scan_head_count == 0 || cp == 1 || zero < 2;
}

// The state behind a part of a sequence would have to pass from rank to rank.
bool scan_check_cp(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    if (graph->scan_head_count == 0 || parallel->degree[AXIS_CP] == 1) return true;
    bool is_sharded = !scan_leaves_shards(graph, parallel->degree[AXIS_CP], parallel->zero);
    if (parallel->cp_kind == CP_ULYSSES && !is_sharded) return true;
    // Refused in these words where it would run, too (memory/plan_script_make.c).
    if (parallel->cp_kind == CP_ULYSSES)
        return err_set(err, ERR_USAGE,
                       "--zero %d: the weights of scans are split over cp, over which zero %d "
                       "shards as well; zero 0 or 1 would run",
                       parallel->zero, parallel->zero);
    return err_set(err, ERR_USAGE,
                   "--cp-kind %s: layers that scan want whole sequences, of some of their heads; "
                   "only ulysses works",
                   cp_kind_name(parallel->cp_kind));
}
