#include "cost_models/hosts.h"

#include <assert.h>

// Ranks of a stage are alike, and lie side by side.
static struct host_need need_of(const struct mesh *mesh, const struct memory_parts *stages,
                                const struct host *host, int first, int end)
{
    assert(first < end && host->memory_bytes >= 0 && host->nvme_bytes >= 0);
    struct host_need need = {.host_limit_bytes = host->memory_bytes,
                             .nvme_limit_bytes = host->nvme_bytes};
    for (int rank = first; rank < end;) {
        int next = mesh_stage_end(mesh, rank);
        if (next > end) next = end;
        const struct memory_parts *parts = &stages[mesh_stage_of(mesh, rank)];
        need.host_bytes += (next - rank) * parts->host_bytes;
        need.nvme_bytes += (next - rank) * parts->nvme_bytes;
        rank = next;
    }
    return need;
}

static int64_t host_over(const struct host_need *need)
{
    return need->host_bytes - need->host_limit_bytes;
}

static int64_t nvme_over(const struct host_need *need)
{
    return need->nvme_bytes - need->nvme_limit_bytes;
}

// A host lacks what is over in either tier: the one does not make up for the other.
static int64_t over(const struct host_need *need)
{
    int64_t host = host_over(need), nvme = nvme_over(need);
    return host > nvme ? host : nvme;
}

// Hosts repeat where a whole number of them holds a whole number of pipelines.
static int distinct_hosts(const struct program *program, int gpus_per_host, int host_count)
{
    assert(gpus_per_host > 0 && host_count > 0);
    int64_t period = (int64_t)mesh_stage_end(&program->mesh, 0) * program->shape.stage_count;
    if (program->mesh.stage_ranks) return host_count;
    if (gpus_per_host % period == 0) return 1;
    if (period % gpus_per_host != 0) return host_count;
    int64_t distinct = period / gpus_per_host;
    return distinct < host_count ? (int)distinct : host_count;
}

struct host_need hosts_need(const struct program *program, const struct memory_parts *stages)
{
    const struct cluster *cluster = program->cluster;
    struct host_need worst = {0};
    bool any = false;
    int first = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int host_count = group->count * (group->gpus / group->gpus_per_host);
        int distinct = distinct_hosts(program, group->gpus_per_host, host_count);
        for (int host = 0; host < distinct; host++) {
            int from = first + host * group->gpus_per_host, end = from + group->gpus_per_host;
            if (end > cluster->rank_count) end = cluster->rank_count;
            if (from >= end) break;
            struct host_need need = need_of(&program->mesh, stages, &group->host, from, end);
            if (!any || over(&need) > over(&worst)) worst = need;
            any = true;
        }
        first += group->count * group->gpus;
    }
    assert(any && "a cluster has a rank");
    return worst;
}

int64_t hosts_shortfall(const struct host_need *need)
{
    int64_t bytes = over(need);
    return bytes > 0 ? bytes : 0;
}

const char *hosts_lack(const struct host_need *need)
{
    return host_over(need) >= nvme_over(need) ? "host memory" : "NVMe";
}
