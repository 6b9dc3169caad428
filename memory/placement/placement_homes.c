#include "memory/placement/placement_plan.h"

#include "core/units.h"

#include <assert.h>
#include <math.h>

// A rank's share of what its host has, on the host that has least.
static void share_of_host(const struct cluster *cluster, int64_t *bytes)
{
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int sharing = group->gpus_per_host;
        if (sharing > cluster->rank_count) sharing = cluster->rank_count;
        int64_t host = group->host.memory_bytes / sharing, nvme = group->host.nvme_bytes / sharing;
        if (i == 0 || host < bytes[TIER_HOST]) bytes[TIER_HOST] = host;
        if (i == 0 || nvme < bytes[TIER_NVME]) bytes[TIER_NVME] = nvme;
    }
}

struct homing {
    struct placed_chunk *chunks;
    int chunk_count;
    struct placed_plan *plan;
};

// Where the host has room for a part of a kind, every so many of its chunks go to the drive: it
// works beside the link and the host's processors all the while, and not before or behind them.
static void spread_kind(const struct homing *homing, enum placed_kind kind, int64_t room_bytes)
{
    struct placed_plan *plan = homing->plan;
    double share = fmin(1, (double)room_bytes / (double)plan->kind_bytes[kind]);
    int64_t seen_bytes = 0, host_bytes = 0;
    for (int c = 0; c < homing->chunk_count; c++) {
        struct placed_chunk *chunk = &homing->chunks[c];
        if (chunk->kind != kind) continue;
        seen_bytes += chunk->bytes;
        bool fits = (double)(host_bytes + chunk->bytes) <= share * (double)seen_bytes;
        chunk->home = fits ? TIER_HOST : TIER_NVME;
        host_bytes += fits ? chunk->bytes : 0;
    }
    assert(host_bytes <= room_bytes && seen_bytes == plan->kind_bytes[kind]);
    plan->home_bytes[TIER_HOST] += host_bytes;
    plan->home_bytes[TIER_NVME] += seen_bytes - host_bytes;
}

// Activations of micro-batches behind each other take the same room: all are on one tier.
static void home_activations(const struct homing *homing, int64_t room_bytes)
{
    int64_t alive = homing->plan->kind_bytes[PLACED_ACTIVATIONS];
    enum tier tier = alive > room_bytes ? TIER_NVME : TIER_HOST;
    for (int c = 0; c < homing->chunk_count; c++)
        if (homing->chunks[c].kind == PLACED_ACTIVATIONS) homing->chunks[c].home = tier;
    homing->plan->home_bytes[tier] += alive;
}

bool placed_homes(struct arena *arena, const struct cluster *cluster, struct placed_chunk *chunks,
                  int chunk_count, struct placed_plan *plan, struct err *err)
{
    static const enum placed_kind ORDER[] = {PLACED_PARAMETERS, PLACED_GRADIENTS,
                                             PLACED_ACTIVATIONS, PLACED_OPTIMIZER};
    const struct homing homing = {chunks, chunk_count, plan};
    int64_t has[TIER_COUNT] = {0};
    share_of_host(cluster, has);
    for (size_t k = 0; k < sizeof ORDER / sizeof *ORDER; k++) {
        int64_t room_bytes = has[TIER_HOST] - plan->home_bytes[TIER_HOST];
        assert(room_bytes >= 0);
        if (ORDER[k] == PLACED_ACTIVATIONS) {
            home_activations(&homing, room_bytes);
        } else if (plan->kind_bytes[ORDER[k]] > 0) {
            spread_kind(&homing, ORDER[k], room_bytes);
        }
    }
    if (plan->home_bytes[TIER_NVME] <= has[TIER_NVME]) return true;
    return err_set(err, ERR_USAGE,
                   "a rank's share of its host is %s of memory and %s of NVMe: %s lie on neither",
                   units_bytes(arena, (double)has[TIER_HOST]),
                   units_bytes(arena, (double)has[TIER_NVME]),
                   units_bytes(arena, (double)(plan->home_bytes[TIER_NVME] - has[TIER_NVME])));
}
