#include "topologies/network.h"

#include <assert.h>

static const struct json_field TIER_FIELDS[] = {
    {JSON_INT(struct network_tier, nodes, 1, 1000000)},
    {JSON_F64(struct network_tier, oversubscription_ratio, 0.01, 1000)},
    {JSON_OPT_BOOL(struct network_tier, dragonfly)},
    {JSON_OPT_INT(struct network_tier, uplinks, 1, 100000)},
    {0},
};
static const struct json_shape TIER_SHAPE = {TIER_FIELDS, NULL};

static const struct json_field NETWORK_FIELDS[] = {
    {JSON_TEXT(struct network, kind)},
    {JSON_OPT_F64(struct network, latency_s, 0, 1)},
    {JSON_OPT_F64(struct network, oversubscription_ratio, 1, 1000)},
    {JSON_OPT_BOOL(struct network, rail_optimized)},
    {JSON_OPT_BOOL(struct network, in_network_reduction)},
    {JSON_OPT_ANY("tiers")},
    {JSON_OPT_INT(struct network, flows_per_nic, 1, 1024)},
    {JSON_OPT_F64(struct network, loss_ratio, 0, 0.1)},
    {JSON_OPT_F64(struct network, loss_stall_s, 0, 100)},
    {0},
};

const struct json_shape *network_shape(void)
{
    static const struct json_part PARTS[] = {{"tiers", JSON_PART_LIST, &TIER_SHAPE, NULL}, {0}};
    static const struct json_shape SHAPE = {NETWORK_FIELDS, PARTS};
    return &SHAPE;
}

// Blocks of each tier are made of whole blocks of the one below.
static void read_tier(const struct json *at, struct network *network, struct err *err)
{
    struct network_tier *tier = &network->tiers[network->tier_count];
    json_read(at, TIER_FIELDS, tier, err);
    if (err->kind) return;
    int below = network->tier_count > 0 ? tier[-1].nodes : 0;
    network->tier_count++;
    if (below == 0 || (tier->nodes > below && tier->nodes % below == 0)) return;
    struct json nodes = json_get(at, "nodes", err);
    json_fail(&nodes, err, "expected a multiple of the %d nodes of the tier below, found %d", below,
              tier->nodes);
}

static void read_tiers(const struct json *part, struct network *network, struct err *err)
{
    if (err->kind || !json_has(part, "tiers")) return;
    struct json list = json_get(part, "tiers", err);
    int count = json_count(&list, err);
    if (!err->kind && (count < 1 || count > NETWORK_TIERS_MAX)) {
        json_fail(&list, err, "expected 1 to %d tiers, found %d", NETWORK_TIERS_MAX, count);
        return;
    }
    for (int i = 0; i < count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        read_tier(&at, network, err);
    }
}

// What is of use only together is given together.
static void check_pairs(const struct json *part, const struct network *network, struct err *err)
{
    if (err->kind) return;
    bool hashes = false;
    for (int i = 0; i < network->tier_count; i++)
        hashes = hashes || network->tiers[i].uplinks > 0;
    struct json flows = json_find(part, "flows_per_nic"), loss = json_find(part, "loss_ratio");
    if (hashes && !flows.value)
        json_fail(part, err, "a tier hashes flows over its \"uplinks\": missing \"flows_per_nic\"");
    if (!hashes && flows.value)
        json_fail(&flows, err, "no tier has \"uplinks\" that flows are hashed over");
    if (!err->kind && json_has(part, "loss_stall_s") != (loss.value != NULL))
        json_fail(part, err, "expected both of \"loss_ratio\" and \"loss_stall_s\", found one");
}

void network_read(const struct json *object, struct network *network, struct err *err)
{
    if (err->kind || !json_has(object, "network")) return;
    struct json part = json_get(object, "network", err);
    json_read(&part, NETWORK_FIELDS, network, err);
    read_tiers(&part, network, err);
    check_pairs(&part, network, err);
}

static void write_tiers(struct json_writer *writer, const struct network *network)
{
    if (network->tier_count == 0) return;
    json_open(writer, "tiers", '[');
    for (int i = 0; i < network->tier_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_fields(writer, TIER_FIELDS, &network->tiers[i]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// What is not said is not written, but for what every network has.
void network_write(struct json_writer *writer, const struct network *network)
{
    assert(network->kind && network->oversubscription_ratio >= 1);
    json_open(writer, "network", '{');
    json_put_text(writer, "kind", network->kind);
    json_put_f64(writer, "latency_s", network->latency_s);
    json_put_f64(writer, "oversubscription_ratio", network->oversubscription_ratio);
    json_put_bool(writer, "rail_optimized", network->rail_optimized);
    json_put_bool(writer, "in_network_reduction", network->in_network_reduction);
    write_tiers(writer, network);
    if (network->flows_per_nic > 0) json_put_i64(writer, "flows_per_nic", network->flows_per_nic);
    if (network->loss_ratio > 0) {
        json_put_f64(writer, "loss_ratio", network->loss_ratio);
        json_put_f64(writer, "loss_stall_s", network->loss_stall_s);
    }
    json_close(writer, '}');
}
