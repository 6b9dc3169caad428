#include "planner/placement.h"

struct placement placement_of(const struct mesh *mesh, const struct parallel *parallel,
                              const struct cluster *cluster)
{
    struct placement placement;
    unsigned axes[PLACEMENT_SHAPES];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        axes[axis] = mesh_axes_of(mesh, (enum axis)axis);
    axes[AXIS_COUNT] = axes[AXIS_DP] | axes[AXIS_CP];
    for (int i = 0; i < STORED_COUNT; i++) {
        enum stored stored = (enum stored)i;
        axes[AXIS_COUNT + 1 + i] = mesh_shard_axes(mesh, parallel, PARAMETER_DENSE, stored);
        axes[AXIS_COUNT + 1 + STORED_COUNT + i] =
            mesh_shard_axes(mesh, parallel, PARAMETER_EXPERT, stored);
    }
    for (int i = 0; i < PLACEMENT_SHAPES; i++) {
        int first = 0;
        while (axes[first] != axes[i])
            first++;
        placement.shapes[i] =
            first < i ? placement.shapes[first] : mesh_group(mesh, cluster, axes[i]);
    }
    return placement;
}

static bool group_shape_equal(const struct group_shape *a, const struct group_shape *b)
{
    return a->rank_count == b->rank_count && a->node_count == b->node_count &&
           a->ranks_per_node == b->ranks_per_node &&
           a->ranks_per_node_least == b->ranks_per_node_least && a->intra == b->intra &&
           a->network == b->network &&
           a->network_bytes_per_s_per_rank == b->network_bytes_per_s_per_rank &&
           a->crossing_bytes_per_s == b->crossing_bytes_per_s &&
           a->crossing_ratio == b->crossing_ratio && a->load.ring == b->load.ring &&
           a->load.all_to_all == b->load.all_to_all && a->load.send == b->load.send &&
           a->torus.links == b->torus.links && a->torus.share == b->torus.share &&
           a->torus.load == b->torus.load && a->torus.steps == b->torus.steps;
}

bool placement_equal(const struct placement *a, const struct placement *b)
{
    for (int i = 0; i < PLACEMENT_SHAPES; i++) {
        if (!group_shape_equal(&a->shapes[i], &b->shapes[i])) return false;
    }
    return true;
}
