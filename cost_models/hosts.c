#include "cost_models/hosts.h"

#include <assert.h>

// Ranks that follow each other on one stage, and stages that follow each other.
struct pattern {
    int run, stage_count;
};

static struct pattern pattern_of(const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    for (int axis = 0; axis < mesh->axis_count; axis++) {
        if (mesh->axes[axis].parent == AXIS_PP)
            return (struct pattern){mesh->axes[axis].stride, mesh->axes[axis].size};
    }
    return (struct pattern){mesh->rank_count, 1};
}

static int stage_of(struct pattern pattern, int rank)
{
    return rank / pattern.run % pattern.stage_count;
}

static struct host_need need_of(struct pattern pattern, const struct memory_parts *stages,
                                const struct host *host, int first, int end)
{
    struct host_need need = {.host_limit_bytes = host->memory_bytes,
                             .nvme_limit_bytes = host->nvme_bytes};
    for (int rank = first; rank < end;) {
        int next = (rank / pattern.run + 1) * pattern.run;
        if (next > end) next = end;
        const struct memory_parts *parts = &stages[stage_of(pattern, rank)];
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

static int64_t over(const struct host_need *need)
{
    int64_t host = host_over(need), nvme = nvme_over(need);
    return host > nvme ? host : nvme;
}

// Hosts repeat where a whole number of them holds a whole number of pipelines.
static int distinct_hosts(struct pattern pattern, int gpus_per_host, int host_count)
{
    int64_t period = (int64_t)pattern.run * pattern.stage_count;
    if (gpus_per_host % period == 0) return 1;
    if (period % gpus_per_host != 0) return host_count;
    int64_t distinct = period / gpus_per_host;
    return distinct < host_count ? (int)distinct : host_count;
}

struct host_need hosts_need(const struct program *program, const struct memory_parts *stages)
{
    const struct cluster *cluster = program->cluster;
    struct pattern pattern = pattern_of(program);
    struct host_need worst = {0};
    bool any = false;
    int first = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int host_count = group->count * (group->gpus / group->gpus_per_host);
        int distinct = distinct_hosts(pattern, group->gpus_per_host, host_count);
        for (int host = 0; host < distinct; host++) {
            int from = first + host * group->gpus_per_host, end = from + group->gpus_per_host;
            if (end > cluster->rank_count) end = cluster->rank_count;
            if (from >= end) break;
            struct host_need need = need_of(pattern, stages, &group->host, from, end);
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
