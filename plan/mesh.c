#include "plan/mesh.h"

#include <assert.h>

enum { PART_MAX = 2 };

static const char *const PART_NAMES[AXIS_COUNT][PART_MAX] = {
    [AXIS_TP] = {"tp.0", "tp.1"},
    [AXIS_DP] = {"dp.0", "dp.1"},
};

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void add_axis(struct mesh *mesh, enum axis parent, const char *name, int part, int size)
{
    if (size == 1) return;
    assert(size > 1 && mesh->axis_count < MESH_AXIS_MAX);
    mesh->axes[mesh->axis_count++] = (struct mesh_axis){name, parent, size, mesh->rank_count, part};
    mesh->rank_count *= size;
}

// An axis of `size` as an inner and an outer factor. Where one of them is 1 the axis keeps its
// name.
static void add_factored(struct mesh *mesh, enum axis parent, const int parts[PART_MAX],
                         int inner_part)
{
    bool factored = parts[0] > 1 && parts[1] > 1;
    for (int i = 0; i < PART_MAX; i++) {
        int part = i == 0 ? inner_part : 1 - inner_part;
        const char *name = factored ? PART_NAMES[parent][part] : axis_name(parent);
        add_axis(mesh, parent, name, part, parts[part]);
    }
}

// Ranks of dp in one shard group. A group takes cp whole, then its part of dp.
static int shard_dp(const struct parallel *parallel)
{
    int cp = parallel->degree[AXIS_CP], dp = parallel->degree[AXIS_DP];
    if (parallel->zero == 0 || parallel->zero_group == 0) return dp;
    assert(parallel->zero_group % cp == 0 && dp % (parallel->zero_group / cp) == 0);
    return parallel->zero_group / cp;
}

struct mesh mesh_make(const struct parallel *parallel, int64_t kv_head_count)
{
    struct parallel by_default;
    parallel_default_order(&by_default);
    const struct parallel *ordered = parallel->order_count ? parallel : &by_default;
    struct mesh mesh = {.rank_count = 1};
    for (int i = 0; i < ordered->order_count; i++) {
        enum axis axis = ordered->order[i];
        int degree = parallel->degree[axis];
        assert(axis_takes_ranks(axis) && degree >= 1);
        if (axis == AXIS_TP && kv_head_count > 0) {
            int split = (int)gcd(degree, kv_head_count);
            add_factored(&mesh, axis, (const int[]){split, degree / split}, 1);
        } else if (axis == AXIS_DP) {
            int shard = shard_dp(parallel);
            add_factored(&mesh, axis, (const int[]){shard, degree / shard}, 0);
        } else {
            add_axis(&mesh, axis, axis_name(axis), 0, degree);
        }
    }
    assert(mesh.rank_count == parallel_rank_count(parallel));
    return mesh;
}

unsigned mesh_axes_of(const struct mesh *mesh, enum axis parent)
{
    unsigned axes = 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (mesh->axes[i].parent == parent) axes |= 1u << i;
    }
    return axes;
}

int mesh_size(const struct mesh *mesh, unsigned axes)
{
    assert(axes >> mesh->axis_count == 0);
    int size = 1;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (axes >> i & 1) size *= mesh->axes[i].size;
    }
    return size;
}

int mesh_coordinate(const struct mesh *mesh, int axis, int rank)
{
    assert(axis >= 0 && axis < mesh->axis_count && rank >= 0 && rank < mesh->rank_count);
    return rank / mesh->axes[axis].stride % mesh->axes[axis].size;
}

unsigned mesh_shard_axes(const struct mesh *mesh, const struct parallel *parallel)
{
    unsigned axes = mesh_axes_of(mesh, AXIS_CP) | mesh_axes_of(mesh, AXIS_DP);
    if (parallel->zero == 0 || parallel->zero_group == 0) return axes;
    for (int i = 0; i < mesh->axis_count; i++) {
        bool replica = mesh->axes[i].parent == AXIS_DP && mesh->axes[i].part == 1;
        if (replica) axes &= ~(1u << i);
    }
    assert(mesh_size(mesh, axes) == parallel->zero_group);
    return axes;
}

struct group_shape mesh_group(const struct mesh *mesh, const struct cluster *cluster, unsigned axes)
{
    assert(axes >> mesh->axis_count == 0);
    struct route_axes group = {0}, all = {.count = mesh->axis_count};
    for (int i = 0; i < mesh->axis_count; i++) {
        all.sizes[i] = mesh->axes[i].size;
        all.strides[i] = mesh->axes[i].stride;
        if (!(axes >> i & 1)) continue;
        group.sizes[group.count] = mesh->axes[i].size;
        group.strides[group.count++] = mesh->axes[i].stride;
    }
    return route_group(cluster, &group, &all);
}
