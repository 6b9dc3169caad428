#include "topologies/offers.h"

#include "core/file.h"

#include <assert.h>
#include <string.h>

enum { GPUS_PER_HOST_MAX = 1024, HOSTS_MAX = 100000 };

static const struct json_field OFFERS_FIELDS[] = {
    {JSON_TEXT(struct offers, name)},
    {JSON_TEXT(struct offers, date)},
    {JSON_TEXT(struct offers, source)},
    {JSON_TEXT(struct offers, currency)},
    {JSON_OPT_F64(struct offers, credits, 0, 1e12)},
    {JSON_ANY("offers")},
    {0},
};

static const struct json_field OFFER_FIELDS[] = {
    {JSON_TEXT(struct offer, name)},
    {JSON_ANY("cluster")},
    {JSON_F64(struct offer, price_per_gpu_hour, 1e-9, 1e9)},
    {JSON_OPT_TEXT(struct offer, date)},
    {JSON_OPT_TEXT(struct offer, source)},
    {JSON_OPT_TEXT(struct offer, region)},
    {JSON_OPT_BOOL(struct offer, spot)},
    {JSON_OPT_F64(struct offer, preemption_mtbf_h, 1e-3, 1e9)},
    {JSON_OPT_INT(struct offer, cores_per_gpu, 1, 1e6)},
    {JSON_OPT_I64(struct offer, host_memory_bytes_per_gpu, 1, 1e15)},
    {JSON_ANY("hosts")},
    {0},
};

static const struct json_field HOSTS_FIELDS[] = {
    {JSON_OPT_INT(struct offer_hosts, count, 1, HOSTS_MAX)},
    {JSON_INT(struct offer_hosts, free, 0, GPUS_PER_HOST_MAX)},
    {JSON_INT(struct offer_hosts, total, 1, GPUS_PER_HOST_MAX)},
    {0},
};

static const struct json_shape HOSTS_SHAPE = {HOSTS_FIELDS, NULL};
static const struct json_part OFFER_PARTS[] = {
    {"hosts", JSON_PART_LIST, &HOSTS_SHAPE, NULL},
    {0},
};
static const struct json_shape OFFER_SHAPE = {OFFER_FIELDS, OFFER_PARTS};
static const struct json_part OFFERS_PARTS[] = {
    {"offers", JSON_PART_LIST, &OFFER_SHAPE, NULL},
    {0},
};
static const struct json_shape OFFERS_SHAPE = {OFFERS_FIELDS, OFFERS_PARTS};

static void read_cluster(struct arena *arena, const struct json *object, struct offer *offer,
                         struct err *err)
{
    if (err->kind) return;
    struct json at = json_get(object, "cluster", err);
    if (json_is_text(&at)) {
        struct err fault = {0};
        offer->cluster = cluster_load(arena, json_text(&at, err), &fault);
        if (!offer->cluster) json_fail(&at, err, "%.800s", fault.text);
    } else if (!err->kind) {
        offer->cluster = cluster_read(arena, &at, err);
    }
    if (err->kind || !offer->cluster) return;
    if (offer->cluster->node_group_count != 1 || offer->cluster->node_count != 1) {
        json_fail(&at, err, "expected a cluster of one node, found %d nodes of %d kinds",
                  offer->cluster->node_count, offer->cluster->node_group_count);
    }
}

static void read_hosts(struct arena *arena, const struct json *object, struct offer *offer,
                       struct err *err)
{
    if (err->kind) return;
    struct json list = json_get(object, "hosts", err);
    offer->host_count = json_count(&list, err);
    if (!err->kind && offer->host_count == 0) json_fail(&list, err, "expected one host or more");
    if (err->kind) return;
    offer->hosts = ARENA_NEW(arena, struct offer_hosts, offer->host_count);
    for (int i = 0; i < offer->host_count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        struct offer_hosts *hosts = &offer->hosts[i];
        hosts->count = 1;
        json_read(&at, HOSTS_FIELDS, hosts, err);
        if (err->kind) return;
        int gpus = offer->cluster->nodes[0].gpus;
        if (hosts->total != gpus) {
            json_fail(&at, err, "a host of cluster %s has %d GPUs, found a total of %d",
                      offer->cluster->name, gpus, hosts->total);
        } else if (hosts->free > hosts->total) {
            json_fail(&at, err, "%d GPUs of %d cannot be free", hosts->free, hosts->total);
        }
    }
}

static struct offers *read_offers(struct arena *arena, const struct json *root, struct err *err)
{
    struct offers *offers = ARENA_NEW(arena, struct offers, 1);
    json_check(root, &OFFERS_SHAPE, err);
    json_read(root, OFFERS_FIELDS, offers, err);
    struct json list = json_get(root, "offers", err);
    offers->count = json_count(&list, err);
    if (!err->kind && offers->count == 0) json_fail(&list, err, "expected one offer or more");
    if (err->kind) return NULL;
    offers->items = ARENA_NEW(arena, struct offer, offers->count);
    for (int i = 0; i < offers->count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        struct offer *offer = &offers->items[i];
        offer->region = "";
        json_read(&at, OFFER_FIELDS, offer, err);
        read_cluster(arena, &at, offer, err);
        read_hosts(arena, &at, offer, err);
        for (int k = 0; k < i && !err->kind; k++) {
            if (strcmp(offers->items[k].name, offer->name) == 0) {
                json_fail(&at, err, "\"%s\" is the name of another offer", offer->name);
            }
        }
        if (!err->kind && offer->preemption_mtbf_h > 0 && !offer->spot) {
            json_fail(&at, err, "preemption_mtbf_h is of an offer that is spot");
        }
    }
    return err->kind ? NULL : offers;
}

struct offers *offers_load(struct arena *arena, const char *name, struct err *err)
{
    const char *path = file_find_data(arena, "topologies/offers", name, "offers file", err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!path || !json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    return read_offers(arena, &root, err);
}

static int hosts_with(const struct offer *offer, int gpus)
{
    int count = 0;
    for (int i = 0; i < offer->host_count; i++) {
        if (offer->hosts[i].free >= gpus) count += offer->hosts[i].count;
    }
    return count;
}

static struct cluster *rent(struct arena *arena, const struct offers *offers,
                            const struct offer *offer, int gpus, int hosts)
{
    const struct cluster *base = offer->cluster;
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    struct node_group *group = ARENA_NEW(arena, struct node_group, 1);
    *cluster = *base;
    *group = base->nodes[0];
    int total = group->gpus;
    group->count = hosts;
    group->gpus = group->gpus_per_host = gpus;
    group->host.cores =
        offer->cores_per_gpu > 0 ? offer->cores_per_gpu * gpus : group->host.cores * gpus / total;
    if (group->host.cores < 1) group->host.cores = 1;
    group->host.memory_bytes = offer->host_memory_bytes_per_gpu > 0
                                   ? offer->host_memory_bytes_per_gpu * gpus
                                   : group->host.memory_bytes / total * gpus;
    group->host.nvme_bytes = group->host.nvme_bytes / total * gpus;
    if (group->nics.count > 0) {
        group->nics.count = group->nics.count * gpus / total;
        // The share of a small part of a host is rounded up: it is never without a network.
        if (group->nics.count == 0) group->nics.count = 1;
    }
    cluster->name = arena_print(arena, "%s %d x %d", offer->name, hosts, gpus);
    cluster->nodes = group;
    cluster->node_count = hosts;
    cluster->rank_count = hosts * gpus;
    cluster->price =
        (struct price){.per_gpu_hour = offer->price_per_gpu_hour,
                       .spot_per_gpu_hour = offer->spot ? offer->price_per_gpu_hour : 0,
                       .currency = offers->currency,
                       .date = offer->date ? offer->date : offers->date,
                       .source = offer->source ? offer->source : offers->source};
    if (offer->spot) cluster->failures.mtbf_h[FAILURE_PREEMPTION] = offer->preemption_mtbf_h;
    return cluster;
}

// One past `most` behind the last.
static int next_hosts(int hosts, int most)
{
    // Each of the first few, then doubled: the answer seldom turns on one host of many.
    if (hosts < OFFERS_HOSTS_EACH || hosts == most) return hosts + 1;
    return 2 * hosts < most ? 2 * hosts : most;
}

struct offer_cluster *offers_clusters(struct arena *arena, const struct offers *offers, int *count)
{
    assert(offers->count >= 0 && count);
    int room = 0;
    for (int i = 0; i < offers->count; i++) {
        room += offers->items[i].cluster->nodes[0].gpus * (OFFERS_HOSTS_EACH + 32);
    }
    struct offer_cluster *clusters = ARENA_NEW(arena, struct offer_cluster, room);
    *count = 0;
    for (int i = 0; i < offers->count; i++) {
        const struct offer *offer = &offers->items[i];
        bool alone = offer->cluster->nodes[0].nics.count == 0;
        for (int gpus = offer->cluster->nodes[0].gpus; gpus > 0; gpus--) {
            int most = hosts_with(offer, gpus);
            if (most == 0) continue;
            if (alone) most = 1;
            for (int hosts = 1; hosts <= most; hosts = next_hosts(hosts, most)) {
                clusters[(*count)++] =
                    (struct offer_cluster){offer, rent(arena, offers, offer, gpus, hosts)};
            }
        }
    }
    assert(*count <= room);
    return clusters;
}
