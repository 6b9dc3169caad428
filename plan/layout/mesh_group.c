#include "plan/layout/mesh.h"

#include <assert.h>

static struct route_axes route_axes_of(const struct mesh *mesh, unsigned axes)
{
    assert(axes >> mesh->axis_count == 0);
    struct route_axes found = {0};
    for (int i = 0; i < mesh->axis_count; i++) {
        if (!(axes >> i & 1)) continue;
        found.sizes[found.count] = mesh->axes[i].size;
        found.strides[found.count++] = mesh->axes[i].stride;
    }
    return found;
}

static struct group_shape group_from(const struct mesh *mesh, const struct cluster *cluster,
                                     unsigned axes, unsigned fixed, int first)
{
    const struct route_axes group = route_axes_of(mesh, axes), place = route_axes_of(mesh, fixed);
    const struct route_axes all = route_axes_of(mesh, (1u << mesh->axis_count) - 1);
    return route_group_from(cluster, &group, &all, &place, first);
}

struct group_shape mesh_group(const struct mesh *mesh, const struct cluster *cluster, unsigned axes)
{
    return group_from(mesh, cluster, axes, 0, mesh->first_rank);
}

struct group_shape mesh_group_at(const struct mesh *mesh, const struct cluster *cluster,
                                 unsigned axes, int stage)
{
    unsigned pipeline = mesh_axes_of(mesh, AXIS_PP);
    if (!pipeline || axes & pipeline) return mesh_group(mesh, cluster, axes);
    return group_from(mesh, cluster, axes, pipeline, mesh_at_stage(mesh, 0, stage));
}

// The rank in a place of a stage.
static int rank_in(const struct mesh *mesh, int stage, int place)
{
    const unsigned axes = ((1u << mesh->axis_count) - 1) & ~mesh_axes_of(mesh, AXIS_PP);
    int rank = mesh_at_stage(mesh, 0, stage);
    if (mesh->stage_ranks) return rank + place % mesh->stage_ranks[stage];
    for (int a = 0; a < mesh->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        rank += place % mesh->axes[a].size * mesh->axes[a].stride;
        place /= mesh->axes[a].size;
    }
    return rank;
}

struct group_shape mesh_group_between(const struct mesh *mesh, const struct cluster *cluster,
                                      int first, int second)
{
    assert(first >= 0 && second >= 0);
    int counts[] = {mesh_stage_ranks(mesh, first), mesh_stage_ranks(mesh, second)};
    int most = counts[0] > counts[1] ? counts[0] : counts[1];
    int beside = counts[0] + counts[1] - most, from_node = -1, to_node = -1;
    if (cluster_is_uniform(cluster))
        return route_pair(cluster, rank_in(mesh, first, 0), rank_in(mesh, second, counts[1] - 1),
                          beside);
    struct group_shape slowest = {0};
    for (int place = 0; place < most; place++) {
        int from = rank_in(mesh, first, place), to = rank_in(mesh, second, place);
        bool is_new =
            cluster_node_of(cluster, from) != from_node || cluster_node_of(cluster, to) != to_node;
        if (!is_new) continue;
        from_node = cluster_node_of(cluster, from);
        to_node = cluster_node_of(cluster, to);
        struct group_shape pair = route_pair(cluster, from, to, beside);
        if (place == 0 || group_shape_slower(&pair, &slowest)) slowest = pair;
    }
    return slowest;
}

struct group_shape mesh_group_of_stages(const struct mesh *mesh, const struct cluster *cluster,
                                        const int *stages, int count)
{
    assert(count >= 2 && stages[0] < stages[count - 1]);
    struct group_shape slowest = mesh_group_between(mesh, cluster, stages[0], stages[count - 1]);
    int node = -1, in_node = 0, most = 0, least = count, nodes = 0;
    if (count == 2) return slowest;
    for (int i = 0; i < count; i++) {
        int own = cluster_node_of(cluster, rank_in(mesh, stages[i], 0));
        nodes += own != node;
        in_node = own == node ? in_node + 1 : 1;
        node = own;
        if (in_node > most) most = in_node;
        bool ends =
            i + 1 == count || cluster_node_of(cluster, rank_in(mesh, stages[i + 1], 0)) != node;
        if (ends && in_node < least) least = in_node;
        if (i == 0) continue;
        struct group_shape pair = mesh_group_between(mesh, cluster, stages[i - 1], stages[i]);
        if (group_shape_slower(&pair, &slowest)) slowest = pair;
    }
    slowest.rank_count = count;
    slowest.node_count = nodes;
    slowest.ranks_per_node = most;
    slowest.ranks_per_node_least = least;
    slowest.torus = (struct torus_group){0};
    return slowest;
}

struct group_shape mesh_group_of_all(const struct mesh *mesh, const struct cluster *cluster)
{
    const struct route_axes all = {.count = 1, .sizes = {mesh->rank_count}, .strides = {1}};
    if (!mesh->stage_ranks) return mesh_group(mesh, cluster, (1u << mesh->axis_count) - 1);
    return route_group(cluster, &all, &all);
}
