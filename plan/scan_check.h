#pragma once
#include "models/graph.h"
#include "plan/parallel.h"

// What layers that scan ask of degrees; true of models without.

// Whether ranks that split the heads share kv heads, or groups, evenly: none has parts of two.
bool kv_heads_share(int64_t kv_heads, int64_t ranks);
// Whether they share the heads of scans and their groups, and groups of heads that are projected
// apart; a group whose norm is its own is whole on a rank. And what is said where they do not.
bool scan_shares(const struct graph *graph, int64_t ranks);
bool scan_refuse_tp(const struct graph *graph, int tp, const char *nearest, struct err *err);
// Whether context parallel ranks leave weights to the stage of ZeRO: they split those of scans,
// tables of heads and sinks with the heads, where stages above 1 would shard them, too.
bool scan_leaves_shards(const struct graph *graph, const struct parallel *parallel);
// Sequences are split for scans only where ranks exchange them for heads, and of models with keys
// of distances only where they do not.
MUST_CHECK bool scan_check_cp(const struct graph *graph, const struct parallel *parallel,
                              struct err *err);
