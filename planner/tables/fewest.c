#include "core/units.h"
#include "planner/tables/place.h"

#include <assert.h>

// Shares of a node first: 1, 2, 4 .. GPUs; then nodes.
static int next_count(int count, int node_gpus)
{
    assert(count >= 1 && node_gpus >= 1);
    if (count >= node_gpus) return count + node_gpus;
    return count * 2 < node_gpus ? count * 2 : node_gpus;
}

// What all ranks together could hold, were tables made of sand.
static bool could_hold(const struct place_request *request)
{
    const struct node_group *node = &request->cluster->nodes[0];
    double ranks = request->cluster->rank_count;
    double on_host = ranks < node->gpus_per_host ? ranks : node->gpus_per_host;
    double bytes = (double)cluster_device_bytes(request->cluster);
    if (request->uses_host) bytes += (double)node->host.memory_bytes / on_host;
    if (request->uses_nvme) bytes += (double)node->host.nvme_bytes / on_host;
    double rows = (double)recommender_row_count(request->model);
    int64_t width = recommender_row_width(request->model);
    return rows * (double)table_row_bytes(request->workload.optimizer, width) <= bytes * ranks;
}

static bool cut_cluster(struct arena *arena, const struct cluster *cluster, int gpus,
                        struct cluster **cut, struct err *err)
{
    int node_gpus = cluster->nodes[0].gpus;
    int64_t nodes = (gpus + node_gpus - 1) / node_gpus;
    *cut = ARENA_NEW(arena, struct cluster, 1);
    **cut = *cluster;
    (*cut)->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    for (int i = 0; i < cluster->node_group_count; i++)
        (*cut)->nodes[i] = cluster->nodes[i];
    return cluster_set_nodes(*cut, nodes, err) && cluster_take_gpus(*cut, gpus, err);
}

bool place_fewest(struct arena *arena, const struct place_request *request, int most,
                  struct fewest *fewest, struct err *err)
{
    *fewest = (struct fewest){0};
    int node_gpus = request->cluster->nodes[0].gpus;
    for (int gpus = 1; gpus <= most; gpus = next_count(gpus, node_gpus)) {
        struct place_request smaller = *request;
        struct cluster *cluster;
        if (!cut_cluster(arena, request->cluster, gpus, &cluster, err)) return false;
        smaller.cluster = cluster;
        smaller.workload.global_batch = request->workload.global_batch / gpus * gpus;
        if (smaller.workload.global_batch == 0) return true;
        if (!could_hold(&smaller)) continue;
        if (!place_tables(arena, &smaller, &fewest->result, err)) return false;
        if (!fewest->result.placement || !fewest->result.prediction.fits) continue;
        fewest->gpus = gpus;
        fewest->global_batch = smaller.workload.global_batch;
        return true;
    }
    return true;
}
