#include "topologies/cluster_assume.h"
#include "core/file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct assumer {
    struct arena *arena;
    const struct json *root;
    struct cluster *cluster;
    struct fabric_kinds *kinds;
    const struct node_group *like;  // of the shipped cluster that tells the host
    const char *like_name;
    struct taken_list taken;
    struct provenance_list provenance;
};

// A constant that others may ask the provenance of.
static void take(struct assumer *of, const char *key, double value, const char *source)
{
    taken_add_number(&of->taken, key, value, source);
    provenance_assume(of->arena, &of->provenance, key, source);
}

static void take_flag(struct assumer *of, const char *key, bool value, const char *source)
{
    taken_add(&of->taken, key, value ? "true" : "false", source);
    provenance_assume(of->arena, &of->provenance, key, source);
}

// The row of this kind, or an error at its place.
static const struct fabric_kind *find_kind(struct assumer *of, const struct json *fabric,
                                           const char *kind, double bytes_per_s, struct err *err)
{
    if (err->kind) return NULL;
    if (!of->kinds) of->kinds = fabric_kinds_load(of->arena, err);
    if (!of->kinds) return NULL;
    const struct fabric_kind *row = fabric_kinds_find(of->kinds, kind, bytes_per_s);
    if (row) return row;
    struct json at = json_get(fabric, "kind", err);
    fabric_kinds_fail(of->arena, of->kinds, &at, kind, err);
    return NULL;
}

static const char *source_of(struct assumer *of, const struct fabric_kind *row)
{
    return arena_print(of->arena, "of %s in cost_models/fabrics.json", row->kind);
}

static void assume_intra(struct assumer *of, const struct json *node, struct node_group *group,
                         const char *prefix, struct err *err)
{
    struct json intra = json_find(node, "intra");
    if (!json_has(node, "intra")) {
        // Nobody is there to talk to; the file that is written needs some speed.
        group->intra = (struct intra_fabric){.kind = "none",
                                             .bandwidth_bytes_per_s = group->host.pcie_bytes_per_s};
        taken_add(&of->taken, arena_print(of->arena, "%sintra", prefix), "none", "one GPU a node");
        return;
    }
    bool has_latency = json_has(&intra, "latency_s");
    bool has_reduction = json_has(&intra, "in_network_reduction");
    bool is_file = of->root->parent == NULL && group->gpus > 1;
    if (has_latency && has_reduction && !is_file) return;
    const struct fabric_kind *row =
        find_kind(of, &intra, group->intra.kind, group->intra.bandwidth_bytes_per_s, err);
    if (!row) return;
    const char *source = source_of(of, row);
    if (!has_latency) {
        group->intra.latency_s = row->latency_s;
        take(of, arena_print(of->arena, "%sintra.latency_s", prefix), row->latency_s, source);
    }
    if (!has_reduction) {
        // A switch between the GPUs of a node adds up without being told to.
        group->intra.in_network_reduction = row->reduce_efficiency_ratio > 0;
        take_flag(of, arena_print(of->arena, "%sintra.in_network_reduction", prefix),
                  group->intra.in_network_reduction, source);
    }
}

// Of two shipped clusters the one with the nearer device, then with the same fabric in its nodes.
static bool is_liker(const struct node_group *group, const struct node_group *other,
                     const struct node_group *than)
{
    if (!than) return true;
    double a = device_distance_of(group->device, other->device);
    double b = device_distance_of(group->device, than->device);
    if (a < b || a > b) return a < b;
    bool is_same = strcmp(group->intra.kind ? group->intra.kind : "", other->intra.kind) == 0;
    bool was_same = strcmp(group->intra.kind ? group->intra.kind : "", than->intra.kind) == 0;
    return is_same && !was_same;
}

static void find_like(struct assumer *of, const struct node_group *group, struct err *err)
{
    int count = 0;
    const char **names = file_list_data(of->arena, "topologies", &count);
    for (int i = 0; i < count && !err->kind; i++) {
        const struct cluster *shipped = cluster_load(of->arena, names[i], err);
        for (int k = 0; shipped && k < shipped->node_group_count; k++) {
            const struct node_group *other = &shipped->nodes[k];
            if (strcmp(other->device->kind, group->device->kind) != 0) continue;
            if (!is_liker(group, other, of->like)) continue;
            of->like = other;
            of->like_name = shipped->name;
        }
    }
}

// Every key of "host" that a file may leave out but for NVMe.
static const char *const HOST_KEYS[] = {"memory_bytes", "memory_bandwidth_bytes_per_s", "cores",
                                        "pcie_bytes_per_s"};
enum { HOST_MEMORY, HOST_BANDWIDTH, HOST_CORES, HOST_PCIE, HOST_KEY_COUNT };

static double share_of(const struct node_group *like, int key, int gpus)
{
    assert(key >= 0 && key < HOST_KEY_COUNT && gpus > 0);
    double share = (double)gpus / like->gpus_per_host;
    switch (key) {
    case HOST_MEMORY:
        return (double)(int64_t)((double)like->host.memory_bytes * share);
    case HOST_BANDWIDTH:
        return like->host.memory_bandwidth_bytes_per_s * share;
    case HOST_CORES:
        return like->host.cores * share < 1 ? 1 : (int)(like->host.cores * share);
    default:
        return like->host.pcie_bytes_per_s;  // of each GPU
    }
}

static void set_host(struct host *host, int key, double value)
{
    if (key == HOST_MEMORY) host->memory_bytes = (int64_t)value;
    if (key == HOST_BANDWIDTH) host->memory_bandwidth_bytes_per_s = value;
    if (key == HOST_CORES) host->cores = (int)value;
    if (key == HOST_PCIE) host->pcie_bytes_per_s = value;
}

static void assume_host(struct assumer *of, const struct json *node, struct node_group *group,
                        const char *prefix, struct err *err)
{
    struct json host = json_find(node, "host");
    bool has_host = json_has(node, "host");
    of->like = NULL;
    for (int key = 0; key < HOST_KEY_COUNT && !err->kind; key++) {
        if (has_host && json_has(&host, HOST_KEYS[key])) continue;
        if (!of->like) find_like(of, group, err);
        if (!of->like) {
            json_fail(node, err,
                      "missing \"host.%s\", and no cluster of kind %s is shipped to take "
                      "it from",
                      HOST_KEYS[key], group->device->kind);
            return;
        }
        double value = share_of(of->like, key, group->gpus_per_host);
        set_host(&group->host, key, value);
        take(of, arena_print(of->arena, "%shost.%s", prefix, HOST_KEYS[key]), value,
             arena_print(of->arena, "as much a GPU as %s", of->like_name));
    }
    static const char *const NVME[] = {"nvme_bytes_per_s", "nvme_bytes"};
    for (int i = 0; i < 2 && !err->kind; i++) {
        if (has_host && json_has(&host, NVME[i])) continue;
        take(of, arena_print(of->arena, "%shost.%s", prefix, NVME[i]), 0, "none");
    }
}

static void assume_group(struct assumer *of, const struct json *node, int index, struct err *err)
{
    struct arena *arena = of->arena;
    struct node_group *group = &of->cluster->nodes[index];
    const char *prefix = arena_print(arena, "nodes[%d].", index);
    if (!json_has(node, "count"))
        taken_add(&of->taken, arena_print(arena, "%scount", prefix), "1", "one node");
    if (!json_has(node, "gpus_per_host") && group->gpus > 1)
        taken_add_number(&of->taken, arena_print(arena, "%sgpus_per_host", prefix), group->gpus,
                         "one host a node");
    const struct taken_list *device = &group->device->taken;
    for (int i = 0; i < device->count; i++) {
        const struct taken_fact *taken = &device->items[i];
        taken_add(&of->taken, arena_print(arena, "%sdevice.%s", prefix, taken->key), taken->value,
                  taken->source);
    }
    assume_host(of, node, group, prefix, err);
    if (!err->kind) assume_intra(of, node, group, prefix, err);
    if (!json_has(node, "nics"))
        taken_add(&of->taken, arena_print(arena, "%snics", prefix), "none", "a machine alone");
}

// The slowest NIC, whose kind and speed say which row of the table is meant.
static double nic_bytes_per_s(const struct cluster *cluster)
{
    double least = cluster->nodes[0].nics.bandwidth_bytes_per_s;
    for (int i = 1; i < cluster->node_group_count; i++) {
        double other = cluster->nodes[i].nics.bandwidth_bytes_per_s;
        if (other < least) least = other;
    }
    return least;
}

static void assume_network(struct assumer *of, struct err *err)
{
    struct network *network = &of->cluster->network;
    struct json at = json_find(of->root, "network");
    if (!json_has(of->root, "network")) {
        taken_add(&of->taken, "network", "none", "a machine alone");
        return;
    }
    bool is_none = strcmp(network->kind, "none") == 0 && of->cluster->node_count == 1;
    bool has_latency = json_has(&at, "latency_s");
    if (!is_none && (!has_latency || !of->root->parent)) {
        const struct fabric_kind *row =
            find_kind(of, &at, network->kind, nic_bytes_per_s(of->cluster), err);
        if (row && !has_latency) {
            network->latency_s = row->latency_s;
            take(of, "network.latency_s", row->latency_s, source_of(of, row));
        }
    }
    if (err->kind) return;
    if (is_none && !has_latency) take(of, "network.latency_s", 0, "a machine alone");
    if (!json_has(&at, "oversubscription_ratio"))
        take(of, "network.oversubscription_ratio", 1, "every NIC at its full speed");
    if (!json_has(&at, "rail_optimized"))
        take_flag(of, "network.rail_optimized", false, "a plain network");
    if (!json_has(&at, "in_network_reduction"))
        take_flag(of, "network.in_network_reduction", false, "a plain network");
}

void cluster_assume(struct arena *arena, const struct json *object, struct cluster *cluster,
                    struct err *err)
{
    if (err->kind) return;
    struct assumer of = {.arena = arena,
                         .root = object,
                         .cluster = cluster,
                         .taken.arena = arena,
                         .provenance = {cluster->provenance, cluster->provenance_count}};
    struct json list = json_get(object, "nodes", err);
    if (!json_has(object, "name")) taken_add(&of.taken, "name", cluster->name, "of the file");
    for (int i = 0; i < cluster->node_group_count && !err->kind; i++) {
        struct json node = json_item(&list, i);
        assume_group(&of, &node, i, err);
    }
    if (!err->kind) assume_network(&of, err);
    if (err->kind) return;
    cluster->provenance = of.provenance.entries;
    cluster->provenance_count = of.provenance.count;
    if (of.taken.count == 0) return;
    cluster->note = arena_print(arena, "%s: not given, taken: %s", object->document->path,
                                taken_text(&of.taken));
}

bool cluster_assumes_links(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->provenance_count; i++) {
        const struct provenance *entry = &cluster->provenance[i];
        if (entry->kind != PROVENANCE_ASSUMED) continue;
        bool is_read = strcmp(entry->key, "network.rail_optimized") != 0;
        bool is_network = strncmp(entry->key, "network.", strlen("network.")) == 0;
        if ((is_network && is_read) || strstr(entry->key, ".intra.")) return true;
    }
    return false;
}
