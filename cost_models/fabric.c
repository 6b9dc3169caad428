#include "core/file.h"
#include "cost_models/collective.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <string.h>

static const struct json_field FABRIC_FIELDS[] = {
    {JSON_TEXT(struct fabric, kind)},
    {JSON_F64(struct fabric, link_bytes_per_s_least, 0, 1e15)},
    {JSON_F64(struct fabric, latency_s, 1e-9, 1)},
    {JSON_F64(struct fabric, efficiency_ratio, 1e-3, 1)},
    {JSON_F64(struct fabric, tree_bandwidth_ratio, 1e-3, 1)},
    {JSON_F64(struct fabric, reduce_efficiency_ratio, 0, 2)},
    {JSON_F64(struct fabric, reduce_latency_s, 0, 1)},
    {JSON_INT(struct fabric, in_network_ranks_least, 0, 1e6)},
    {JSON_F64(struct fabric, all_to_all_efficiency_ratio, 1e-3, 1)},
    {JSON_F64(struct fabric, send_efficiency_ratio, 1e-3, 1)},
    {JSON_ANY("protocols")},
    {JSON_OPT_ANY("group_efficiency")},
    {JSON_ANY("provenance")},
    {0},
};

static const struct json_field PROTOCOL_FIELDS[] = {
    {JSON_F64(struct fabric_protocol, base_latency_s, 0, 1)},
    {JSON_F64(struct fabric_protocol, ring_step_latency_s, 0, 1)},
    {JSON_F64(struct fabric_protocol, tree_step_latency_s, 0, 1)},
    {JSON_F64(struct fabric_protocol, bandwidth_ratio, 1e-3, 1)},
    {0},
};

static const struct json_field PROTOCOL_NAMES[] = {
    [PROTOCOL_LL] = {JSON_OPT_ANY("ll")},
    [PROTOCOL_LL128] = {JSON_OPT_ANY("ll128")},
    [PROTOCOL_SIMPLE] = {JSON_ANY("simple")},
    [PROTOCOL_COUNT] = {0},
};

static const struct json_field GROUP_FIELDS[] = {
    {JSON_INT(struct group_efficiency, rank_count, 2, 1e6)},
    {JSON_F64(struct group_efficiency, ratio, FABRIC_GROUP_RATIO_LOW, 1)},
    {0},
};

static const struct json_field FILE_FIELDS[] = {
    {JSON_ANY("fabrics")},
    {0},
};

static const struct json_shape PROTOCOL_SHAPE = {PROTOCOL_FIELDS, NULL};
static const struct json_part PROTOCOL_PARTS[] = {
    {"ll", JSON_PART_OBJECT, &PROTOCOL_SHAPE, NULL},
    {"ll128", JSON_PART_OBJECT, &PROTOCOL_SHAPE, NULL},
    {"simple", JSON_PART_OBJECT, &PROTOCOL_SHAPE, NULL},
    {0},
};
static const struct json_shape PROTOCOLS_SHAPE = {PROTOCOL_NAMES, PROTOCOL_PARTS};
static const struct json_shape GROUP_SHAPE = {GROUP_FIELDS, NULL};
static const struct json_part FABRIC_PARTS[] = {
    {"protocols", JSON_PART_OBJECT, &PROTOCOLS_SHAPE, NULL},
    {"group_efficiency", JSON_PART_LIST, &GROUP_SHAPE, NULL},
    {0},
};
static const struct json_shape FABRIC_SHAPE = {FABRIC_FIELDS, FABRIC_PARTS};
static const struct json_part FILE_PARTS[] = {
    {"fabrics", JSON_PART_LIST, &FABRIC_SHAPE, NULL},
    {0},
};
static const struct json_shape FILE_SHAPE = {FILE_FIELDS, FILE_PARTS};

const char *fabric_name(struct arena *arena, const struct fabric *fabric)
{
    double least = fabric->link_bytes_per_s_least;
    if (least == 0) return fabric->kind;
    return arena_print(arena, "%s from %g GB/s", fabric->kind, least / 1e9);
}

const struct json_field *fabric_fields(void)
{
    return FABRIC_FIELDS;
}

const struct json_field *fabric_protocol_fields(void)
{
    return PROTOCOL_FIELDS;
}

const char *protocol_name(enum protocol protocol)
{
    assert(protocol < PROTOCOL_COUNT);
    return PROTOCOL_NAMES[protocol].key;
}

struct fabrics *fabrics_copy(struct arena *arena, const struct fabrics *fabrics)
{
    struct fabrics *copy = ARENA_NEW(arena, struct fabrics, 1);
    copy->count = fabrics->count;
    copy->rows = ARENA_NEW(arena, struct fabric, fabrics->count);
    for (int i = 0; i < fabrics->count; i++) {
        struct fabric *row = &copy->rows[i];
        *row = fabrics->rows[i];
        size_t bytes = (size_t)row->group_efficiency_count * sizeof *row->group_efficiency;
        row->group_efficiency =
            ARENA_NEW(arena, struct group_efficiency, row->group_efficiency_count);
        if (bytes > 0) memcpy(row->group_efficiency, fabrics->rows[i].group_efficiency, bytes);
    }
    return copy;
}

static void read_protocols(const struct json *at, struct fabric *fabric, struct err *err)
{
    struct json protocols = json_get(at, "protocols", err);
    json_read(&protocols, PROTOCOL_NAMES, fabric, err);
    for (int i = 0; i < PROTOCOL_COUNT && !err->kind; i++) {
        if (!json_has(&protocols, PROTOCOL_NAMES[i].key)) continue;
        struct json protocol = json_get(&protocols, PROTOCOL_NAMES[i].key, err);
        json_read(&protocol, PROTOCOL_FIELDS, &fabric->protocols[i], err);
    }
}

// Ascending, as between two points the efficiency is interpolated.
static void read_groups(struct arena *arena, const struct json *at, struct fabric *fabric,
                        struct err *err)
{
    if (err->kind || !json_has(at, "group_efficiency")) return;
    struct json list = json_get(at, "group_efficiency", err);
    int count = json_count(&list, err);
    fabric->group_efficiency = ARENA_NEW(arena, struct group_efficiency, count);
    fabric->group_efficiency_count = count;
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        struct group_efficiency *group = &fabric->group_efficiency[i];
        json_read(&item, GROUP_FIELDS, group, err);
        if (!err->kind && i > 0 && group->rank_count <= group[-1].rank_count) {
            json_fail(&item, err, "expected more ranks than in the entry before");
        }
    }
}

static void read_fabric(struct arena *arena, const struct json *at, struct fabric *fabric,
                        struct err *err)
{
    json_read(at, FABRIC_FIELDS, fabric, err);
    if (!err->kind) read_protocols(at, fabric, err);
    read_groups(arena, at, fabric, err);
    struct provenance_list list = {0};
    if (!err->kind) list = provenance_read(arena, at, "fabric", err);
    fabric->provenance = list.entries;
    fabric->provenance_count = list.count;
}

const struct fabrics *fabrics_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct fabrics *fabrics = ARENA_NEW(arena, struct fabrics, 1);
    json_check(object, &FILE_SHAPE, err);
    json_read(object, FILE_FIELDS, fabrics, err);
    struct json list = json_get(object, "fabrics", err);
    fabrics->count = json_count(&list, err);
    fabrics->rows = ARENA_NEW(arena, struct fabric, fabrics->count);
    for (int i = 0; i < fabrics->count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        const struct fabric *row = &fabrics->rows[i];
        read_fabric(arena, &at, &fabrics->rows[i], err);
        for (int k = 0; k < i && !err->kind; k++) {
            const struct fabric *other = &fabrics->rows[k];
            if (strcmp(row->kind, other->kind) == 0 &&
                row->link_bytes_per_s_least == other->link_bytes_per_s_least) {
                json_fail(&at, err, "a second row of kind \"%s\" from the same speed on",
                          row->kind);
            }
        }
    }
    return err->kind ? NULL : fabrics;
}

const struct fabrics *fabrics_load(struct arena *arena, struct err *err)
{
    const char *path = file_find_data(arena, "cost_models", "fabrics", "table of fabrics", err);
    struct json_document document;
    if (!path || !json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return fabrics_read(arena, &root, err);
}

// A link slower than all rows of its kind takes the slowest row: its constants are ratios.
const struct fabric *fabrics_find(const struct fabrics *fabrics, const char *kind,
                                  double link_bytes_per_s)
{
    assert(link_bytes_per_s >= 0);
    const struct fabric *best = NULL, *slowest = NULL;
    for (int i = 0; i < fabrics->count; i++) {
        const struct fabric *row = &fabrics->rows[i];
        double least = row->link_bytes_per_s_least;
        if (strcmp(row->kind, kind) != 0) continue;
        if (!slowest || least < slowest->link_bytes_per_s_least) slowest = row;
        if (least > link_bytes_per_s) continue;
        if (!best || least > best->link_bytes_per_s_least) best = row;
    }
    return best ? best : slowest;
}

// The kinds, each once, joined by commas.
static void list_kinds(const struct fabrics *fabrics, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (int i = 0; i < fabrics->count; i++) {
        const char *kind = fabrics->rows[i].kind;
        if (fabrics_find(fabrics, kind, 0) != &fabrics->rows[i]) continue;
        if (text[0]) strncat(text, ", ", text_bytes - strlen(text) - 1);
        strncat(text, kind, text_bytes - strlen(text) - 1);
    }
}

static bool fail_kind(const struct fabrics *fabrics, const struct cluster *cluster,
                      const char *what, const char *kind, struct err *err)
{
    char kinds[512];
    list_kinds(fabrics, kinds, sizeof kinds);
    return err_set(err, ERR_INPUT, "cluster %s: %s is of unknown kind \"%s\", there are: %s",
                   cluster->name, what, kind, kinds);
}

bool fabrics_cover(const struct fabrics *fabrics, const struct cluster *cluster, struct err *err)
{
    assert(cluster->node_group_count > 0);
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        if (group->gpus == 1 || fabrics_find(fabrics, group->intra.kind, 0)) continue;
        return fail_kind(fabrics, cluster, "an intra fabric", group->intra.kind, err);
    }
    const char *between = cluster->node_group_count > 1 ? cluster->between.kind : NULL;
    if (between && !fabrics_find(fabrics, between, 0))
        return fail_kind(fabrics, cluster, "what joins the nodes", between, err);
    if (cluster->node_count == 1 || fabrics_find(fabrics, cluster->network.kind, 0)) return true;
    return fail_kind(fabrics, cluster, "the network", cluster->network.kind, err);
}
