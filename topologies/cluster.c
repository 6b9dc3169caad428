#include "topologies/cluster.h"
#include "core/file.h"
#include "core/units.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct json_field CLUSTER_FIELDS[] = {
    {JSON_TEXT(struct cluster, name)},
    {JSON_ANY("nodes")},
    {JSON_ANY("network")},
    {JSON_OPT_ANY("price")},
    {JSON_OPT_ANY("failures")},
    {JSON_OPT_INT(struct cluster, rank_count, 1, CLUSTER_GPUS_MAX)},
    {0},
};

static const struct json_field NODE_FIELDS[] = {
    {JSON_INT(struct node_group, count, 1, CLUSTER_NODES_MAX)},
    {JSON_INT(struct node_group, gpus, 1, 100000)},
    {JSON_ANY("device")},
    {JSON_ANY("intra")},
    {JSON_OPT_INT(struct node_group, gpus_per_host, 1, 100000)},
    {JSON_ANY("host")},
    {JSON_ANY("nics")},
    {0},
};

static const struct json_field INTRA_FIELDS[] = {
    {JSON_TEXT(struct intra_fabric, kind)},
    {JSON_F64(struct intra_fabric, bandwidth_bytes_per_s, 1, 1e15)},
    {JSON_F64(struct intra_fabric, latency_s, 0, 1)},
    {JSON_BOOL(struct intra_fabric, in_network_reduction)},
    {0},
};

static const struct json_field HOST_FIELDS[] = {
    {JSON_I64(struct host, memory_bytes, 1, 1e15)},
    {JSON_F64(struct host, memory_bandwidth_bytes_per_s, 1, 1e15)},
    {JSON_INT(struct host, cores, 1, 100000)},
    {JSON_F64(struct host, pcie_bytes_per_s, 1, 1e15)},
    {JSON_F64(struct host, nvme_bytes_per_s, 0, 1e15)},
    {JSON_I64(struct host, nvme_bytes, 0, 1e15)},
    {0},
};

// The NICs have no type of their own, so the keys stand here by hand.
static const struct json_field NIC_FIELDS[] = {
    {"count", JSON_TYPE_INT, offsetof(struct node_group, nics.count), 0, 100000, false},
    {"bandwidth_bytes_per_s", JSON_TYPE_F64,
     offsetof(struct node_group, nics.bandwidth_bytes_per_s), 0, 1e15, false},
    {0},
};

static const struct json_field NETWORK_FIELDS[] = {
    {JSON_TEXT(struct network, kind)},
    {JSON_F64(struct network, latency_s, 0, 1)},
    {JSON_F64(struct network, oversubscription_ratio, 1, 1000)},
    {JSON_BOOL(struct network, rail_optimized)},
    {JSON_BOOL(struct network, in_network_reduction)},
    {0},
};

static const struct json_field PRICE_FIELDS[] = {
    {JSON_F64(struct price, per_gpu_hour, 1e-6, 1e9)},
    {JSON_TEXT(struct price, currency)},
    {JSON_OPT_F64(struct price, spot_per_gpu_hour, 1e-6, 1e9)},
    {0},
};

// Reads the object under `key`; an absent optional one leaves `into` as it is.
static void read_part(const struct json *object, const char *key, bool optional,
                      const struct json_field *fields, void *into, struct err *err)
{
    if (err->kind || (optional && !json_has(object, key))) return;
    struct json part = json_get(object, key, err);
    json_read(&part, fields, into, err);
}

static void read_node_group(struct arena *arena, const struct json *at, struct node_group *group,
                            struct err *err)
{
    json_read(at, NODE_FIELDS, group, err);
    if (!json_has(at, "gpus_per_host")) group->gpus_per_host = group->gpus;
    read_part(at, "intra", false, INTRA_FIELDS, &group->intra, err);
    read_part(at, "host", false, HOST_FIELDS, &group->host, err);
    read_part(at, "nics", false, NIC_FIELDS, group, err);
    if (err->kind) return;
    if (group->gpus % group->gpus_per_host != 0) {
        struct json hosts = json_get(at, "gpus_per_host", err);
        json_fail(&hosts, err, "expected a divisor of the node's %d GPUs, found %d", group->gpus,
                  group->gpus_per_host);
        return;
    }
    struct json device = json_get(at, "device", err);
    group->device = device_read(arena, &device, err);
}

// A node without NICs stands alone.
static bool can_reach_others(const struct node_group *group)
{
    return group->nics.count > 0 && group->nics.bandwidth_bytes_per_s > 0;
}

static void check_nics(const struct cluster *cluster, const struct json *list, struct err *err)
{
    for (int i = 0; cluster->node_count > 1 && i < cluster->node_group_count; i++) {
        if (can_reach_others(&cluster->nodes[i])) continue;
        struct json at = json_item(list, i);
        struct json nics = json_get(&at, "nics", err);
        json_fail(&nics, err, "%d nodes need a network, but these nodes have no NIC",
                  cluster->node_count);
    }
}

// The ranks in use end in the last node: a cluster has no idle nodes.
static void check_ranks(const struct cluster *cluster, const struct json *root, int gpu_count,
                        struct err *err)
{
    int least_count = gpu_count - cluster->nodes[cluster->node_group_count - 1].gpus + 1;
    if (cluster->rank_count >= least_count && cluster->rank_count <= gpu_count) return;
    struct json ranks = json_get(root, "rank_count", err);
    json_fail(&ranks, err, "must be between %d and %d to end in the last node, found %d",
              least_count, gpu_count, cluster->rank_count);
}

// Fills nodes, node_count and, where the file does not give it, rank_count.
static void read_nodes(struct arena *arena, const struct json *root, struct cluster *cluster,
                       struct err *err)
{
    struct json list = json_get(root, "nodes", err);
    if (!err->kind && !json_is_array(&list)) json_fail(&list, err, "expected an array of nodes");
    int count = json_count(&list, err);
    cluster->nodes = ARENA_NEW(arena, struct node_group, count);
    cluster->node_group_count = count;
    int64_t gpu_count = 0;
    for (int i = 0; i < count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        struct node_group *group = &cluster->nodes[i];
        read_node_group(arena, &at, group, err);
        gpu_count += (int64_t)group->count * group->gpus;
        if (gpu_count > CLUSTER_GPUS_MAX)
            json_fail(&at, err, "more than %d GPUs", CLUSTER_GPUS_MAX);
        if (!err->kind) cluster->node_count += group->count;
    }
    if (!err->kind && gpu_count == 0) json_fail(&list, err, "a cluster needs a GPU");
    if (err->kind) return;
    check_nics(cluster, &list, err);
    if (!json_has(root, "rank_count")) cluster->rank_count = (int)gpu_count;
    check_ranks(cluster, root, (int)gpu_count, err);
}

struct cluster *cluster_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    json_read(object, CLUSTER_FIELDS, cluster, err);
    read_part(object, "network", false, NETWORK_FIELDS, &cluster->network, err);
    read_part(object, "price", true, PRICE_FIELDS, &cluster->price, err);
    failures_read(object, &cluster->failures, err);
    read_nodes(arena, object, cluster, err);
    return err->kind ? NULL : cluster;
}

static struct cluster *read_file(struct arena *arena, const char *path, struct err *err)
{
    struct json_document document;
    if (!json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return cluster_read(arena, &root, err);
}

// The N of NAME-xN, NULL when the name does not end so.
static const char *count_suffix(const char *name)
{
    const char *digits = name + strlen(name);
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    bool has_count = *digits && digits - name > 2 && digits[-1] == 'x' && digits[-2] == '-';
    return has_count ? digits : NULL;
}

struct cluster *cluster_load(struct arena *arena, const char *name, struct err *err)
{
    if (err->kind) return NULL;
    struct err unknown = {0};
    const char *path = file_find_data(arena, "topologies", name, "cluster", &unknown);
    if (path) return read_file(arena, path, err);
    const char *digits = count_suffix(name);
    if (!digits) {
        err_set(err, unknown.kind, "%s", unknown.text);
        return NULL;
    }
    char *base = arena_copy(arena, name);
    base[digits - name - 2] = '\0';
    path = file_find_data(arena, "topologies", base, "cluster", err);
    int64_t nodes = 0;
    if (!path || !units_parse_i64(digits, name, 1, CLUSTER_NODES_MAX, &nodes, err)) return NULL;
    struct cluster *cluster = read_file(arena, path, err);
    return cluster && cluster_set_nodes(cluster, nodes, err) ? cluster : NULL;
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
    if (nodes > 1 && !can_reach_others(group)) {
        return err_set(err, ERR_USAGE, "%s cannot have %lld nodes: its nodes have no NIC",
                       cluster->name, (long long)nodes);
    }
    group->count = cluster->node_count = (int)nodes;
    cluster->rank_count = group->count * group->gpus;
    return true;
}

bool cluster_take_gpus(struct cluster *cluster, int64_t gpus, struct err *err)
{
    if (gpus < 1 || gpus > cluster->rank_count) {
        const struct node_group *group = &cluster->nodes[0];
        bool grows = cluster->node_group_count == 1 && can_reach_others(group) && gpus > 0 &&
                     gpus <= CLUSTER_GPUS_MAX;
        char more[64] = "";
        if (grows)
            snprintf(more, sizeof more, " (more with --nodes %lld)",
                     ((long long)gpus + group->gpus - 1) / group->gpus);
        return err_set(err, ERR_USAGE, "gpus of %s: expected 1 to %d, found %lld%s", cluster->name,
                       cluster->rank_count, (long long)gpus, more);
    }
    cluster->rank_count = (int)gpus;
    int64_t left = gpus;
    cluster->node_count = 0;
    for (int i = 0; left > 0; i++) {
        struct node_group *group = &cluster->nodes[i];
        int64_t needed = (left + group->gpus - 1) / group->gpus;
        if (needed < group->count) group->count = (int)needed;
        left -= (int64_t)group->count * group->gpus;
        cluster->node_count += group->count;
        cluster->node_group_count = i + 1;
    }
    return true;
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

static bool groups_equal(const struct node_group *a, const struct node_group *b)
{
    return a->gpus == b->gpus && a->gpus_per_host == b->gpus_per_host &&
           strcmp(a->intra.kind, b->intra.kind) == 0 &&
           a->intra.bandwidth_bytes_per_s == b->intra.bandwidth_bytes_per_s &&
           a->intra.latency_s == b->intra.latency_s &&
           a->intra.in_network_reduction == b->intra.in_network_reduction &&
           a->nics.count == b->nics.count &&
           a->nics.bandwidth_bytes_per_s == b->nics.bandwidth_bytes_per_s &&
           device_equals(a->device, b->device);
}

bool cluster_is_uniform(const struct cluster *cluster)
{
    for (int i = 1; i < cluster->node_group_count; i++) {
        if (!groups_equal(&cluster->nodes[0], &cluster->nodes[i])) return false;
    }
    return true;
}

const struct device *cluster_slowest_device(const struct cluster *cluster, enum precision precision)
{
    const struct device *slowest = cluster->nodes[0].device;
    for (int i = 1; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        if (device->peak_flop_per_s[precision] < slowest->peak_flop_per_s[precision]) {
            slowest = device;
        }
    }
    return slowest;
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
