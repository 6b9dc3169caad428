#pragma once
#include "cost_models/collective.h"
#include "tests/support/test.h"

// Prices of collectives on shipped clusters with the shipped fabrics.

static inline const struct fabrics *shipped(struct arena *arena)
{
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    return fabrics;
}

static inline struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

// `count` ranks `stride` apart of all of a cluster's.
static inline struct group_shape group_of(const struct cluster *cluster, int count, int stride)
{
    struct route_axes axes = {1, {count}, {stride}};
    struct route_axes mesh = {1, {cluster->rank_count}, {1}};
    return route_group(cluster, &axes, &mesh);
}

static inline struct collective_cost price(struct arena *arena, const char *cluster, int count,
                                           int stride, enum collective collective, double bytes)
{
    struct group_shape group = group_of(load(arena, cluster), count, stride);
    return collective_price(shipped(arena), &group, collective, bytes, 1);
}

static inline const struct fabric *shipped_fabric(struct arena *arena, const char *kind,
                                                  double link_bytes_per_s)
{
    return fabrics_find(shipped(arena), kind, link_bytes_per_s);
}
