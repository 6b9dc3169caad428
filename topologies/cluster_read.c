#include "core/file.h"
#include "core/units.h"
#include "topologies/cluster_assume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Reading of cluster files. Only what a vendor's sheet says must be given; cluster_assume.c takes
// the rest.

static const struct json_field CLUSTER_FIELDS[] = {
    {JSON_OPT_TEXT(struct cluster, name)},
    {JSON_ANY("nodes")},
    {JSON_OPT_ANY("network")},
    {JSON_OPT_ANY("between")},
    {JSON_OPT_ANY("price")},
    {JSON_OPT_ANY("failures")},
    {JSON_OPT_INT(struct cluster, rank_count, 1, CLUSTER_GPUS_MAX)},
    {JSON_OPT_INT(struct cluster, idle_gpus, 0, CLUSTER_GPUS_MAX)},
    {JSON_OPT_ANY("provenance")},
    {0},
};

static const struct json_field NODE_FIELDS[] = {
    {JSON_OPT_INT(struct node_group, count, 1, CLUSTER_NODES_MAX)},
    {JSON_INT(struct node_group, gpus, 1, 100000)},
    {JSON_ANY("device")},
    {JSON_OPT_ANY("intra")},
    {JSON_OPT_INT(struct node_group, gpus_per_host, 1, 100000)},
    {JSON_OPT_ANY("host")},
    {JSON_OPT_ANY("nics")},
    {0},
};

static const struct json_field INTRA_FIELDS[] = {
    {JSON_TEXT(struct intra_fabric, kind)},
    {JSON_F64(struct intra_fabric, bandwidth_bytes_per_s, 1, 1e15)},
    {JSON_OPT_F64(struct intra_fabric, latency_s, 0, 1)},
    {JSON_OPT_BOOL(struct intra_fabric, in_network_reduction)},
    {JSON_OPT_ANY("torus")},
    {JSON_OPT_BOOL(struct intra_fabric, torus_open)},
    {0},
};

static const struct json_field HOST_FIELDS[] = {
    {JSON_OPT_I64(struct host, memory_bytes, 1, 1e15)},
    {JSON_OPT_F64(struct host, memory_bandwidth_bytes_per_s, LINK_RATE_LOW, 1e15)},
    {JSON_OPT_INT(struct host, cores, 1, 100000)},
    {JSON_OPT_F64(struct host, pcie_bytes_per_s, LINK_RATE_LOW, 1e15)},
    {JSON_OPT_F64(struct host, nvme_bytes_per_s, 0, 1e15)},
    {JSON_OPT_F64(struct host, nvme_duplex_ratio, 1, 2)},
    {JSON_OPT_I64(struct host, nvme_bytes, 0, 1e15)},
    {0},
};

// The NICs have no type of their own, so the keys stand here by hand.
static const struct json_field NIC_FIELDS[] = {
    {"count", JSON_TYPE_INT, offsetof(struct node_group, nics.count), 0, 100000, false},
    {"bandwidth_bytes_per_s", JSON_TYPE_F64,
     offsetof(struct node_group, nics.bandwidth_bytes_per_s), 0, 1e15, false},
    {0},
};

static const struct json_field BETWEEN_FIELDS[] = {
    {JSON_TEXT(struct between_groups, kind)},
    {JSON_F64(struct between_groups, bandwidth_bytes_per_s, LINK_RATE_LOW, 1e15)},
    {JSON_F64(struct between_groups, latency_s, 0, 10)},
    {0},
};

static const struct json_field PRICE_FIELDS[] = {
    {JSON_F64(struct price, per_gpu_hour, 1e-6, 1e9)},
    {JSON_TEXT(struct price, currency)},
    {JSON_OPT_F64(struct price, spot_per_gpu_hour, 1e-6, 1e9)},
    {JSON_OPT_TEXT(struct price, date)},
    {JSON_OPT_TEXT(struct price, source)},
    {0},
};

// How many nodes the entries of the list say, as far as they say it.
static int64_t count_nodes(const struct json *root)
{
    struct json list = json_find(root, "nodes");
    int64_t nodes = 0;
    for (int i = 0; json_is_array(&list) && i < json_count(&list, &(struct err){0}); i++) {
        struct json node = json_item(&list, i), count = json_find(&node, "count");
        struct err ignored = {0};
        int64_t said = count.value ? json_i64(&count, 1, CLUSTER_NODES_MAX, &ignored) : 1;
        nodes += ignored.kind ? 1 : said;
    }
    return nodes;
}

static bool has_nics(const struct json *root)
{
    struct json list = json_find(root, "nodes");
    for (int i = 0; json_is_array(&list) && i < json_count(&list, &(struct err){0}); i++) {
        struct json node = json_item(&list, i), nics = json_find(&node, "nics");
        struct json count = json_find(&nics, "count");
        struct err ignored = {0};
        bool is_none = count.value && json_i64(&count, 0, 0, &ignored) == 0 && !ignored.kind;
        if (json_has(&node, "nics") && !is_none) return true;
    }
    return false;
}

static bool names_network(const struct json *root)
{
    struct json network = json_find(root, "network"), kind = json_find(&network, "kind");
    struct err ignored = {0};
    const char *text = json_is_text(&kind) ? json_text(&kind, &ignored) : NULL;
    return json_has(root, "network") && !(text && strcmp(text, "none") == 0);
}

// One GPU alone needs nothing that joins it to others.
static bool needs_intra(const struct json *node)
{
    struct json gpus = json_find(node, "gpus");
    struct err ignored = {0};
    return !gpus.value || json_i64(&gpus, 1, 1, &ignored) != 1;
}

// A machine stands alone when it is one and neither NICs nor a network are said.
static bool needs_network(const struct json *root)
{
    return count_nodes(root) != 1 || has_nics(root);
}

static bool needs_nics(const struct json *node)
{
    const struct json *root = node->parent ? node->parent->parent : NULL;
    if (!node->value || !root) return true;
    return count_nodes(root) != 1 || names_network(root);
}

// Inside another file nothing else names it.
static bool needs_name(const struct json *root)
{
    return root->parent != NULL;
}

static const struct json_shape INTRA_SHAPE = {INTRA_FIELDS, NULL};
static const struct json_shape HOST_SHAPE = {HOST_FIELDS, NULL};
static const struct json_shape NIC_SHAPE = {NIC_FIELDS, NULL};
static const struct json_shape BETWEEN_SHAPE = {BETWEEN_FIELDS, NULL};
static const struct json_shape PRICE_SHAPE = {PRICE_FIELDS, NULL};

// The shapes of other files are known when the program runs.
static void check_shape(const struct json *object, struct err *err)
{
    const struct json_part node_parts[] = {
        {"device", JSON_PART_NAMED, device_shape(), NULL},
        {"intra", JSON_PART_OBJECT, &INTRA_SHAPE, needs_intra},
        {"host", JSON_PART_OBJECT, &HOST_SHAPE, NULL},
        {"nics", JSON_PART_OBJECT, &NIC_SHAPE, needs_nics},
        {0},
    };
    const struct json_shape node = {NODE_FIELDS, node_parts};
    const struct json_part parts[] = {
        {"name", JSON_PART_NAMED, NULL, needs_name},
        {"nodes", JSON_PART_LIST, &node, NULL},
        {"network", JSON_PART_OBJECT, network_shape(), needs_network},
        {"between", JSON_PART_OBJECT, &BETWEEN_SHAPE, NULL},
        {"price", JSON_PART_OBJECT, &PRICE_SHAPE, NULL},
        {"failures", JSON_PART_OBJECT, failures_shape(), NULL},
        {"provenance", JSON_PART_LIST, provenance_shape(), NULL},
        {0},
    };
    const struct json_shape shape = {CLUSTER_FIELDS, parts};
    json_check(object, &shape, err);
}

// Reads the object under `key`; an absent one leaves `into` as it is.
static void read_part(const struct json *object, const char *key, const struct json_field *fields,
                      void *into, struct err *err)
{
    if (err->kind || !json_has(object, key)) return;
    struct json part = json_get(object, key, err);
    json_read(&part, fields, into, err);
}

// The GPUs along each dimension of a torus, which all have a place there.
static void read_torus(const struct json *at, struct node_group *group, struct err *err)
{
    struct json intra = json_find(at, "intra");
    if (err->kind || !intra.value) return;
    if (!json_has(&intra, "torus")) {
        struct json open = json_find(&intra, "torus_open");
        if (open.value) json_fail(&open, err, "expected the sizes of a \"torus\" beside it");
        return;
    }
    struct json list = json_get(&intra, "torus", err);
    int count = json_is_array(&list) ? json_count(&list, err) : 0;
    if (count < 1 || count > TORUS_DIMENSIONS_MAX) {
        json_fail(&list, err, "expected an array of 1 to %d sizes", TORUS_DIMENSIONS_MAX);
        return;
    }
    int64_t gpus = 1;
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&list, i);
        group->intra.torus[i] = (int)json_i64(&item, 1, 100000, err);
        gpus *= group->intra.torus[i];
    }
    group->intra.torus_count = count;
    if (!err->kind && gpus != group->gpus)
        json_fail(&list, err, "expected sizes whose product is the node's %d GPUs, found %" PRId64,
                  group->gpus, gpus);
}

// Of links that ranks use; a machine of one GPU says 1 of those that it has not.
static void check_rate(const struct json *node, const char *links, struct err *err)
{
    struct json at = json_get(node, links, err), rate = json_get(&at, "bandwidth_bytes_per_s", err);
    json_f64(&rate, LINK_RATE_LOW, 1e15, err);
}

static void read_node_group(struct arena *arena, const struct json *at, struct node_group *group,
                            struct err *err)
{
    json_read(at, NODE_FIELDS, group, err);
    read_part(at, "intra", INTRA_FIELDS, &group->intra, err);
    read_part(at, "host", HOST_FIELDS, &group->host, err);
    read_part(at, "nics", NIC_FIELDS, group, err);
    read_torus(at, group, err);
    if (!err->kind && group->gpus > 1 && json_has(at, "intra")) check_rate(at, "intra", err);
    if (err->kind) return;
    if (!json_has(at, "count")) group->count = 1;
    if (!json_has(at, "gpus_per_host")) group->gpus_per_host = group->gpus;
    if (group->gpus % group->gpus_per_host != 0) {
        struct json hosts = json_get(at, "gpus_per_host", err);
        json_fail(&hosts, err, "expected a divisor of the node's %d GPUs, found %d", group->gpus,
                  group->gpus_per_host);
        return;
    }
    struct json device = json_get(at, "device", err);
    group->device = device_read(arena, &device, err);
}

static void check_nics(const struct cluster *cluster, const struct json *list, struct err *err)
{
    for (int i = 0; cluster->node_count > 1 && i < cluster->node_group_count; i++) {
        struct json at = json_item(list, i);
        if (cluster_can_reach(&cluster->nodes[i])) {
            check_rate(&at, "nics", err);
            continue;
        }
        struct json nics = json_get(&at, "nics", err);
        json_fail(&nics, err, "%d nodes need a network, but these nodes have no NIC",
                  cluster->node_count);
    }
}

// Blocks are counted in nodes of as many GPUs each, all on one network.
static void check_tiers(const struct json *root, const struct cluster *cluster, struct err *err)
{
    if (cluster->network.tier_count > 0 && cluster->between.kind) {
        struct json between = json_get(root, "between", err);
        json_fail(&between, err, "expected one network whose switches have \"tiers\"");
    }
    for (int i = 1; cluster->network.tier_count > 0 && i < cluster->node_group_count; i++) {
        if (err->kind || cluster->nodes[i].gpus == cluster->nodes[0].gpus) continue;
        struct json network = json_get(root, "network", err), at = json_get(&network, "tiers", err);
        json_fail(&at, err, "join nodes of as many GPUs each, found %d and %d",
                  cluster->nodes[0].gpus, cluster->nodes[i].gpus);
    }
}

static void check_between(const struct json *root, const struct cluster *cluster, struct err *err)
{
    if (!cluster->between.kind || cluster->node_group_count > 1) return;
    struct json at = json_get(root, "between", err);
    json_fail(&at, err, "joins groups of nodes, of which there is one");
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

// What may be left out though an entry of the provenance still speaks of it.
static const struct json_field CONSTANT_FIELDS[] = {
    {JSON_OPT_ANY("latency_s")},
    {JSON_OPT_ANY("in_network_reduction")},
    {JSON_OPT_ANY("memory_bytes")},
    {JSON_OPT_ANY("memory_bandwidth_bytes_per_s")},
    {JSON_OPT_ANY("cores")},
    {JSON_OPT_ANY("pcie_bytes_per_s")},
    {JSON_OPT_ANY("nvme_bytes_per_s")},
    {JSON_OPT_ANY("nvme_duplex_ratio")},
    {JSON_OPT_ANY("nvme_bytes")},
    {JSON_OPT_ANY("oversubscription_ratio")},
    {JSON_OPT_ANY("rail_optimized")},
    {0},
};
static const struct json_shape CONSTANT_SHAPE = {CONSTANT_FIELDS, NULL};

// "mine" of "data/mine.json".
static const char *base_name(struct arena *arena, const char *path)
{
    static const char SUFFIX[] = ".json";
    const char *slash = strrchr(path, '/');
    char *base = arena_copy(arena, slash ? slash + 1 : path);
    size_t length = strlen(base), suffix = strlen(SUFFIX);
    if (length > suffix && strcmp(base + length - suffix, SUFFIX) == 0)
        base[length - suffix] = '\0';
    return base;
}

struct cluster *cluster_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    cluster->network = (struct network){.kind = "none", .oversubscription_ratio = 1};
    check_shape(object, err);
    json_read(object, CLUSTER_FIELDS, cluster, err);
    network_read(object, &cluster->network, err);
    read_part(object, "between", BETWEEN_FIELDS, &cluster->between, err);
    cluster->between.network = (struct network){.kind = cluster->between.kind,
                                                .latency_s = cluster->between.latency_s,
                                                .oversubscription_ratio = 1};
    read_part(object, "price", PRICE_FIELDS, &cluster->price, err);
    failures_read(object, &cluster->failures, err);
    read_nodes(arena, object, cluster, err);
    struct provenance_list list =
        provenance_read_some(arena, object, "cluster", &CONSTANT_SHAPE, err);
    cluster->provenance = list.entries;
    cluster->provenance_count = list.count;
    if (!err->kind) check_between(object, cluster, err);
    if (!err->kind) check_tiers(object, cluster, err);
    if (!err->kind && !cluster->name) cluster->name = base_name(arena, object->document->path);
    cluster_assume(arena, object, cluster, err);
    return err->kind ? NULL : cluster;
}

struct left_out_key {
    char text[512];
    size_t room_bytes;
    int untold_count;
};

// The optional members of the table that the object does not have, but those that nothing is taken
// for: whoever is told what is missing is told of these, too.
static void add_left_out(struct left_out_key *list, const struct json *object, const char *prefix,
                         const struct json_field *fields)
{
    static const char *const UNKNOWN[] = {
        "price", "failures",      "rank_count", "idle_gpus",   "host",  "intra",
        "nics",  "network",       "provenance", "between",     "torus", "torus_open",
        "tiers", "flows_per_nic", "loss_ratio", "loss_stall_s"};
    for (const struct json_field *field = fields; field->key; field++) {
        bool is_taken = field->optional;
        for (size_t i = 0; i < sizeof UNKNOWN / sizeof *UNKNOWN; i++)
            is_taken = is_taken && strcmp(UNKNOWN[i], field->key) != 0;
        if (!is_taken || json_has(object, field->key)) continue;
        size_t length = strlen(list->text);
        bool fits = length + strlen(prefix) + strlen(field->key) + 5 < list->room_bytes;
        list->untold_count += !fits;
        if (!fits) continue;
        snprintf(list->text + length, sizeof list->text - length, "%s\"%s%s\"", length ? ", " : "",
                 prefix, field->key);
    }
}

static void add_left_out_of_node(struct arena *arena, struct left_out_key *list,
                                 const struct json *node, int index)
{
    const char *prefix = arena_print(arena, "nodes[%d].", index);
    struct json intra = json_find(node, "intra"), host = json_find(node, "host");
    add_left_out(list, node, prefix, NODE_FIELDS);
    if (intra.value)
        add_left_out(list, &intra, arena_print(arena, "%sintra.", prefix), INTRA_FIELDS);
    add_left_out(list, &host, arena_print(arena, "%shost.", prefix), HOST_FIELDS);
}

static void tell_left_out(struct arena *arena, const struct json *root, struct err *err)
{
    static const char INTRO[] = "; left out too, but with defaults: ", MORE[] = " and 1000000 more";
    struct left_out_key list = {0};
    struct json nodes = json_find(root, "nodes"), network = json_find(root, "network");
    bool is_of_links = strstr(err->text, "$: missing ") || strstr(err->text, "$.network: missing ");
    for (const char *at = strstr(err->text, "$.nodes["); at; at = strstr(at + 1, "$.nodes[")) {
        const char *colon = strchr(at, ':');
        is_of_links = is_of_links || (colon && strncmp(colon, ": missing ", 10) == 0);
    }
    size_t used = strlen(err->text) + strlen(INTRO) + strlen(MORE);
    if (!json_is_object(root) || !is_of_links || used >= sizeof err->text) return;
    list.room_bytes = sizeof err->text - used;
    if (list.room_bytes > sizeof list.text) list.room_bytes = sizeof list.text;
    add_left_out(&list, root, "", CLUSTER_FIELDS);
    int count = json_is_array(&nodes) ? json_count(&nodes, &(struct err){0}) : 0;
    for (int i = 0; i < count; i++) {
        struct json node = json_item(&nodes, i);
        add_left_out_of_node(arena, &list, &node, i);
    }
    if (network.value) add_left_out(&list, &network, "network.", network_shape()->fields);
    if (!list.text[0]) return;
    err_add(err, "%s%s", INTRO, list.text);
    if (list.untold_count > 0) err_add(err, " and %d more", list.untold_count);
}

static struct cluster *read_file(struct arena *arena, const char *path, struct err *err)
{
    struct json_document document = {0};
    struct cluster *cluster = NULL;
    bool is_parsed = json_load(arena, path, &document, err);
    if (is_parsed) {
        struct json root = json_root(&document);
        cluster = cluster_read(arena, &root, err);
    }
    // Whoever has a file, but a wrong one, is told of a right one.
    if (err->kind == ERR_INPUT && document.path)
        err_add(err, "; start from: meshwright topology dgx-h100 --json");
    if (is_parsed && err->kind == ERR_INPUT) {
        struct json root = json_root(&document);
        tell_left_out(arena, &root, err);
    }
    return cluster;
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
