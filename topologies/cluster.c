#include "topologies/cluster.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct cluster *cluster_copy_nodes(struct arena *arena, const struct cluster *cluster)
{
    assert(cluster->node_group_count >= 1);
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    *copy = *cluster;
    copy->nodes = ARENA_COPY(arena, struct node_group, cluster->nodes, cluster->node_group_count);
    return copy;
}

bool cluster_can_reach(const struct node_group *group)
{
    return group->nics.count > 0 && group->nics.bandwidth_bytes_per_s > 0;
}

bool cluster_set_nodes(struct cluster *cluster, int64_t nodes, struct err *err)
{
    if (cluster->node_group_count != 1) {
        return err_set(err, ERR_USAGE,
                       "%s mixes %d kinds of nodes, their numbers stand in the file", cluster->name,
                       cluster->node_group_count);
    }
    struct node_group *group = cluster->nodes;
    if (nodes < 1 || nodes > CLUSTER_NODES_MAX || nodes * group->gpus > CLUSTER_GPUS_MAX) {
        return err_set(err, ERR_USAGE, "nodes of %s: expected 1 to %d, found %lld", cluster->name,
                       CLUSTER_NODES_MAX, (long long)nodes);
    }
    if (nodes > 1 && !cluster_can_reach(group)) {
        return err_set(err, ERR_USAGE, "%s cannot have %lld nodes: its nodes have no NIC",
                       cluster->name, (long long)nodes);
    }
    group->count = cluster->node_count = (int)nodes;
    cluster->rank_count = group->count * group->gpus;
    cluster->idle_gpus = 0;
    return true;
}

bool cluster_take_gpus(struct cluster *cluster, int64_t gpus, struct err *err)
{
    if (gpus < 1 || gpus > cluster->rank_count) {
        const struct node_group *group = &cluster->nodes[0];
        bool grows = cluster->node_group_count == 1 && cluster_can_reach(group) && gpus > 0 &&
                     gpus <= CLUSTER_GPUS_MAX;
        char more[64] = "";
        if (grows)
            snprintf(more, sizeof more, " (more with --nodes %lld)",
                     ((long long)gpus + group->gpus - 1) / group->gpus);
        return err_set(err, ERR_USAGE, "gpus of %s: expected 1 to %d, found %lld%s", cluster->name,
                       cluster->rank_count, (long long)gpus, more);
    }
    // Nodes that are left without a GPU are given back; the last one that is not is kept whole.
    cluster->rank_count = (int)gpus;
    cluster->idle_gpus = 0;
    int64_t left = gpus;
    const int group_count = cluster->node_group_count;
    cluster->node_count = 0;
    for (int i = 0; left > 0; i++) {
        assert(i < group_count);
        struct node_group *group = &cluster->nodes[i];
        int64_t needed = (left + group->gpus - 1) / group->gpus;
        if (needed < group->count) group->count = (int)needed;
        left -= (int64_t)group->count * group->gpus;
        cluster->node_count += group->count;
        cluster->node_group_count = i + 1;
    }
    return true;
}

int cluster_rented_count(const struct cluster *cluster)
{
    assert(cluster->idle_gpus >= 0);
    return cluster->rank_count + cluster->idle_gpus;
}

// The group that holds `rank`, the rank at which it starts and its first node.
static const struct node_group *find_group(const struct cluster *cluster, int rank, int *first_rank,
                                           int *first_node)
{
    assert(rank >= 0 && rank < cluster->rank_count);
    const struct node_group *group = cluster->nodes;
    *first_rank = *first_node = 0;
    while (rank - *first_rank >= group->count * group->gpus) {
        *first_rank += group->count * group->gpus;
        *first_node += group->count;
        group++;
    }
    return group;
}

const struct node_group *cluster_group_of(const struct cluster *cluster, int rank)
{
    int first_rank, first_node;
    return find_group(cluster, rank, &first_rank, &first_node);
}

int cluster_node_of(const struct cluster *cluster, int rank)
{
    int first_rank, first_node;
    const struct node_group *group = find_group(cluster, rank, &first_rank, &first_node);
    return first_node + (rank - first_rank) / group->gpus;
}

struct cluster *cluster_with_kernels(struct arena *arena, const struct cluster *cluster,
                                     const struct kernel_table *table, struct err *err)
{
    for (int i = 0; i < cluster->node_group_count; i++) {
        if (strcmp(cluster->nodes[i].device->name, table->device) != 0) continue;
        struct device *device = device_copy(arena, cluster->nodes[i].device);
        device->kernels = table;
        return cluster_with_device(arena, cluster, device);
    }
    err_set(err, ERR_USAGE, "kernel table %s was measured on %s, which cluster %s has none of",
            table->name, table->device, cluster->name);
    return NULL;
}

void cluster_set_memory(struct arena *arena, struct cluster *cluster, int64_t device_bytes)
{
    assert(device_bytes > 0);
    for (int i = 0; i < cluster->node_group_count; i++) {
        struct device *device = device_copy(arena, cluster->nodes[i].device);
        device->memory_bytes = device_bytes;
        cluster->nodes[i].device = device;
    }
}

static bool torus_equal(const struct intra_fabric *a, const struct intra_fabric *b)
{
    return a->torus_count == b->torus_count && a->torus_open == b->torus_open &&
           memcmp(a->torus, b->torus, sizeof a->torus) == 0;
}

bool node_group_equals(const struct node_group *a, const struct node_group *b)
{
    return a->gpus == b->gpus && a->gpus_per_host == b->gpus_per_host &&
           strcmp(a->intra.kind, b->intra.kind) == 0 &&
           a->intra.bandwidth_bytes_per_s == b->intra.bandwidth_bytes_per_s &&
           a->intra.latency_s == b->intra.latency_s &&
           a->intra.in_network_reduction == b->intra.in_network_reduction &&
           torus_equal(&a->intra, &b->intra) && a->nics.count == b->nics.count &&
           a->nics.bandwidth_bytes_per_s == b->nics.bandwidth_bytes_per_s &&
           device_equals(a->device, b->device);
}

bool cluster_is_uniform(const struct cluster *cluster)
{
    if (cluster->between.kind && cluster->node_group_count > 1) return false;
    for (int i = 1; i < cluster->node_group_count; i++) {
        if (!node_group_equals(&cluster->nodes[0], &cluster->nodes[i])) return false;
    }
    return true;
}

// By peak, then by memory, then by whatever else prices read, so that the order of the nodes is no
// matter.
bool device_is_slower(const struct device *a, const struct device *b, enum precision precision)
{
    assert((unsigned)precision < PRECISION_COUNT);
    const struct device_efficiency *of_a = &a->efficiency, *of_b = &b->efficiency;
    const double pairs[][2] = {
        {a->peak_flop_per_s[precision], b->peak_flop_per_s[precision]},
        {a->memory_bandwidth_bytes_per_s, b->memory_bandwidth_bytes_per_s},
        {of_a->gemm_ratio[precision], of_b->gemm_ratio[precision]},
        {of_a->memory_ratio, of_b->memory_ratio},
        {of_a->attention_forward_ratio, of_b->attention_forward_ratio},
        {of_a->attention_backward_ratio, of_b->attention_backward_ratio},
        {a->exponential_per_s, b->exponential_per_s},
        {b->launch_latency_s, a->launch_latency_s},
        {a->multiprocessor_count, b->multiprocessor_count},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][0] != pairs[i][1]) return pairs[i][0] < pairs[i][1];
    }
    return strcmp(a->name, b->name) < 0;
}

const struct device *cluster_slowest_device(const struct cluster *cluster, enum precision precision)
{
    assert((unsigned)precision < PRECISION_COUNT && cluster->node_group_count >= 1);
    const struct device *slowest = cluster->nodes[0].device;
    for (int i = 1; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        if (device_is_slower(device, slowest, precision)) slowest = device;
    }
    return slowest;
}

bool cluster_has_one_device(const struct cluster *cluster)
{
    for (int i = 1; i < cluster->node_group_count; i++) {
        if (cluster_device_kind(cluster, i) != 0) return false;
    }
    return true;
}

int cluster_device_kind(const struct cluster *cluster, int node_group)
{
    assert(node_group >= 0 && node_group < cluster->node_group_count);
    const struct device *device = cluster->nodes[node_group].device;
    int kind = 0;
    while (cluster->nodes[kind].device != device &&
           !device_equals(cluster->nodes[kind].device, device))
        kind++;
    return kind;
}

int64_t cluster_device_bytes(const struct cluster *cluster)
{
    int64_t bytes = cluster->nodes[0].device->memory_bytes;
    for (int i = 1; i < cluster->node_group_count; i++) {
        int64_t other = cluster->nodes[i].device->memory_bytes;
        if (other < bytes) bytes = other;
    }
    return bytes;
}

bool cluster_check_precision(const struct cluster *cluster, enum precision precision,
                             struct err *err)
{
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        if (device->peak_flop_per_s[precision] > 0) continue;
        char known[64] = "";
        for (int p = 0; p < PRECISION_COUNT; p++) {
            size_t length = strlen(known);
            if (device->peak_flop_per_s[p] <= 0) continue;
            snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "",
                     precision_name((enum precision)p));
        }
        return err_set(err, ERR_USAGE,
                       "--precision %s: device %s has no matrix units for it; it has %s",
                       precision_name(precision), device->name, known);
    }
    return true;
}

struct cluster *cluster_with_device(struct arena *arena, const struct cluster *cluster,
                                    const struct device *device)
{
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    *copy = *cluster;
    copy->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        copy->nodes[i] = cluster->nodes[i];
        if (strcmp(copy->nodes[i].device->name, device->name) == 0) copy->nodes[i].device = device;
    }
    return copy;
}
