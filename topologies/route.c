#include "topologies/route.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A mesh numbers ranks 0 .. product - 1 in mixed radix: sorted by stride, each stride is a multiple
// of the size times the stride before it. So are the axes of a group, with gaps, and the gaps are
// the axes over which the concurrent groups differ.
struct lattice {
    int count;
    int sizes[2 * ROUTE_AXIS_MAX + 1], strides[2 * ROUTE_AXIS_MAX + 1];
};

// What has been seen of one group while its ranks are visited in ascending order.
struct tally {
    const struct cluster *cluster;
    const struct node_group *group;  // of the current node
    int group_start, group_end;      // its ranks
    int node_end;                    // the first rank after the current node
    int ranks_in_node;
    bool meets;                     // two ranks have shared a node: their fabric is the one used
    int size;                       // of the communicator
    const struct node_group *last;  // whose ranks are being counted
    int ranks_of_last;
    double pairs;                // of a rank of one node group and one outside, the most of any
    const struct lattice *axes;  // of the communicator, which decide what it has of a torus
    struct group_shape shape;    // of the nodes left behind, without oversubscription
};

// The NICs of the node that one GPU can call its own when all GPUs send.
static double nic_share_bytes_per_s(const struct node_group *group)
{
    return group->nics.count * group->nics.bandwidth_bytes_per_s / group->gpus;
}

static void lattice_add(struct lattice *lattice, int size, int stride)
{
    if (size == 1) return;
    assert(lattice->count < 2 * ROUTE_AXIS_MAX + 1);
    lattice->sizes[lattice->count] = size;
    lattice->strides[lattice->count++] = stride;
}

// Sorted by stride; axes that continue each other become one.
static struct lattice lattice_of(const struct route_axes *axes)
{
    struct lattice sorted = {0}, merged = {0};
    assert(axes->count >= 0 && axes->count <= ROUTE_AXIS_MAX);
    for (int i = 0; i < axes->count; i++) {
        assert(axes->sizes[i] >= 1 && axes->strides[i] >= 1);
        int at = sorted.count;
        lattice_add(&sorted, axes->sizes[i], axes->strides[i]);
        for (; at > 0 && at < sorted.count && sorted.strides[at - 1] > axes->strides[i]; at--) {
            sorted.sizes[at] = sorted.sizes[at - 1];
            sorted.strides[at] = sorted.strides[at - 1];
            sorted.sizes[at - 1] = axes->sizes[i];
            sorted.strides[at - 1] = axes->strides[i];
        }
    }
    for (int i = 0; i < sorted.count; i++) {
        int last = merged.count - 1;
        if (last >= 0 && merged.strides[last] * merged.sizes[last] == sorted.strides[i]) {
            merged.sizes[last] *= sorted.sizes[i];
        } else {
            lattice_add(&merged, sorted.sizes[i], sorted.strides[i]);
        }
    }
    return merged;
}

static int64_t product(const int *sizes, int count)
{
    int64_t all = 1;
    for (int i = 0; i < count; i++) {
        all *= sizes[i];
    }
    return all;
}

// The axes that are not in the group: the first rank of every concurrent group.
static struct lattice complement(const struct lattice *group, int rank_count)
{
    struct lattice rest = {0};
    int span = 1;  // ranks below are numbered by the axes seen so far
    for (int i = 0; i < group->count; i++) {
        assert(group->strides[i] % span == 0 && "axes of a mesh are in mixed radix");
        lattice_add(&rest, group->strides[i] / span, span);
        span = group->strides[i] * group->sizes[i];
    }
    assert(rank_count % span == 0 && "the axes of a group divide the mesh");
    lattice_add(&rest, rank_count / span, span);
    return rest;
}

static int greatest_divisor(int a, int b)
{
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Where all nodes are alike, a group is moved by whole nodes without changing its shape. So an axis
// whose stride is a number of nodes only repeats the nodes below it: it leaves `group`, and the
// answer is how often they repeat. Other axes are cut after the steps that fill whole nodes.
static int fold_group(struct lattice *group, int gpus)
{
    struct lattice inner = {0};
    int repeat = 1;
    for (int i = 0; i < group->count; i++) {
        int size = group->sizes[i], stride = group->strides[i];
        int steps = gpus / greatest_divisor(stride, gpus);
        assert(steps > 0);
        if (size % steps == 0) {
            lattice_add(&inner, steps, stride);
            repeat *= size / steps;
        } else {
            lattice_add(&inner, size, stride);
        }
    }
    *group = inner;
    return repeat;
}

// Of the first ranks only those that differ within a node give different shapes.
static void fold_starts(struct lattice *starts, int gpus)
{
    for (int i = 0; i < starts->count; i++) {
        int steps = gpus / greatest_divisor(starts->strides[i], gpus);
        if (steps < starts->sizes[i]) starts->sizes[i] = steps;
    }
}

// No axis has a part of one node and a part of another: what digits below are inside a node, those
// above are a node's, and groups differ in neither.
static bool ends_with_nodes(const struct lattice *lattice, int gpus)
{
    for (int i = 0; i < lattice->count; i++) {
        int stride = lattice->strides[i], end = stride * lattice->sizes[i];
        bool cuts = gpus % stride == 0 && end % gpus == 0;
        if (!cuts && gpus % end != 0 && stride % gpus != 0) return false;
    }
    return true;
}

// Adds the offset of the next point of axes `first` and above; false after the last.
static bool lattice_next(const struct lattice *lattice, int first, int *digits, int *offset)
{
    for (int i = first; i < lattice->count; i++) {
        *offset += lattice->strides[i];
        if (++digits[i] < lattice->sizes[i]) return true;
        *offset -= lattice->strides[i] * lattice->sizes[i];
        digits[i] = 0;
    }
    return false;
}

static double in_node_bytes_per_s(const struct intra_fabric *intra, const struct torus_group *torus)
{
    if (torus->links <= 0) return intra->bandwidth_bytes_per_s;
    return torus->links * torus_link_bytes_per_s(intra);
}

// The kind and the shape settle what is equal in all else, so that the order of the nodes is no
// matter.
static bool fabric_slower(const struct intra_fabric *a, const struct torus_group *a_torus,
                          const struct intra_fabric *b, const struct torus_group *b_torus)
{
    double a_bytes_per_s = in_node_bytes_per_s(a, a_torus);
    double b_bytes_per_s = in_node_bytes_per_s(b, b_torus);
    if (a_bytes_per_s != b_bytes_per_s) return a_bytes_per_s < b_bytes_per_s;
    if (a->bandwidth_bytes_per_s != b->bandwidth_bytes_per_s) {
        return a->bandwidth_bytes_per_s < b->bandwidth_bytes_per_s;
    }
    if (a->latency_s != b->latency_s) return a->latency_s > b->latency_s;
    if (a->in_network_reduction != b->in_network_reduction) return b->in_network_reduction;
    int kinds = strcmp(a->kind, b->kind);
    if (kinds != 0) return kinds < 0;
    if (a_torus->load != b_torus->load) return a_torus->load > b_torus->load;
    if (a_torus->share != b_torus->share) return a_torus->share < b_torus->share;
    return a_torus->steps > b_torus->steps;
}

static void leave_group(struct tally *tally)
{
    tally->pairs =
        fmax(tally->pairs, (double)tally->ranks_of_last * (tally->size - tally->ranks_of_last));
    tally->ranks_of_last = 0;
    tally->last = tally->group;
}

static void leave_node(struct tally *tally)
{
    if (tally->ranks_in_node == 0) return;
    struct group_shape *shape = &tally->shape;
    bool is_first = !shape->intra;
    int ranks = tally->ranks_in_node;
    assert(ranks <= tally->group->gpus);
    double share = nic_share_bytes_per_s(tally->group);
    const struct intra_fabric *intra = &tally->group->intra;
    const struct lattice *axes = tally->axes;
    struct torus_group torus = torus_group_of(intra, axes->sizes, axes->strides, axes->count);
    if (tally->group != tally->last) leave_group(tally);
    tally->ranks_of_last += ranks;
    shape->rank_count += ranks;
    shape->node_count++;
    if (ranks > shape->ranks_per_node) shape->ranks_per_node = ranks;
    if (is_first || ranks < shape->ranks_per_node_least) shape->ranks_per_node_least = ranks;
    // A fabric inside a node where no two ranks meet carries nothing of the group.
    bool meets = ranks > 1, same = meets == tally->meets;
    if (is_first || (meets && !tally->meets) ||
        (same && fabric_slower(intra, &torus, shape->intra, &shape->torus))) {
        shape->intra = intra;
        shape->torus = torus;
    }
    tally->meets |= meets;
    if (is_first || share < shape->network_bytes_per_s_per_rank) {
        shape->network_bytes_per_s_per_rank = share;
    }
    tally->ranks_in_node = 0;
}

static void enter_node(struct tally *tally, int rank)
{
    leave_node(tally);
    while (!tally->group || rank >= tally->group_end) {
        tally->group = tally->group ? tally->group + 1 : tally->cluster->nodes;
        tally->group_start = tally->group_end;
        tally->group_end += tally->group->count * tally->group->gpus;
    }
    assert(tally->group < tally->cluster->nodes + tally->cluster->node_group_count);
    int gpus = tally->group->gpus;
    int node = (rank - tally->group_start) / gpus;
    tally->node_end = tally->group_start + (node + 1) * gpus;
}

// Visits `size` ranks from `rank` on, `stride` apart, a node at a time.
static void visit(struct tally *tally, int rank, int size, int stride)
{
    while (size > 0) {
        if (rank >= tally->node_end) enter_node(tally, rank);
        assert(rank >= tally->group_start && rank < tally->node_end);
        int here = (tally->node_end - 1 - rank) / stride + 1;
        if (here > size) here = size;
        tally->ranks_in_node += here;
        rank += here * stride;
        size -= here;
    }
}

// `group` may be folded, `axes` are all.
static struct group_shape shape_from(const struct cluster *cluster, const struct lattice *group,
                                     const struct lattice *axes, int start, int repeat)
{
    // Where axes are folded all nodes are alike, and nothing is crossed.
    struct tally tally = {
        .cluster = cluster, .size = (int)product(group->sizes, group->count), .axes = axes};
    int digits[2 * ROUTE_AXIS_MAX + 1] = {0};
    int size = group->count ? group->sizes[0] : 1, stride = group->count ? group->strides[0] : 1;
    int rank = start;
    do {
        visit(&tally, rank, size, stride);
    } while (lattice_next(group, 1, digits, &rank));
    leave_node(&tally);
    leave_group(&tally);
    struct group_shape shape = tally.shape;
    assert(shape.intra && "a group has a rank");
    shape.rank_count *= repeat;
    shape.node_count *= repeat;
    shape.network = &cluster->network;
    if (shape.node_count > 1) {
        shape.network_bytes_per_s_per_rank /= cluster->network.oversubscription_ratio;
    }
    if (cluster->between.kind) shape.crossing_ratio = tally.pairs / tally.size;
    return shape;
}

// The link between node groups is shared by the concurrent groups that cross it.
static void cross(const struct cluster *cluster, int crossing_count, struct group_shape *shape)
{
    if (shape->crossing_ratio <= 0) return;
    shape->network = &cluster->between.network;
    shape->crossing_bytes_per_s = cluster->between.bandwidth_bytes_per_s / crossing_count;
    shape->network_bytes_per_s_per_rank =
        fmin(shape->network_bytes_per_s_per_rank,
             shape->crossing_bytes_per_s / shape->ranks_per_node_least);
}

// The first rank of each of the concurrent groups in turn.
static int count_crossing(const struct cluster *cluster, const struct lattice *group,
                          const struct lattice *starts, int start)
{
    int digits[2 * ROUTE_AXIS_MAX + 1] = {0}, count = 0;
    if (!cluster->between.kind) return 0;
    do {
        count += shape_from(cluster, group, group, start, 1).crossing_ratio > 0;
    } while (lattice_next(starts, 0, digits, &start));
    return count;
}

static double bandwidth_bytes_per_s(const struct group_shape *shape)
{
    double intra =
        shape->ranks_per_node > 1 ? in_node_bytes_per_s(shape->intra, &shape->torus) : INFINITY;
    double network = shape->ranks_per_node_least * shape->network_bytes_per_s_per_rank;
    return shape->node_count > 1 ? fmin(intra, network) : intra;
}

// Equal in all that is compared means equal in all that the caller sees.
bool group_shape_slower(const struct group_shape *a, const struct group_shape *b)
{
    double a_bytes_per_s = bandwidth_bytes_per_s(a), b_bytes_per_s = bandwidth_bytes_per_s(b);
    if (a_bytes_per_s != b_bytes_per_s) return a_bytes_per_s < b_bytes_per_s;
    if (a->node_count != b->node_count) return a->node_count > b->node_count;
    if (a->ranks_per_node_least != b->ranks_per_node_least) {
        return a->ranks_per_node_least < b->ranks_per_node_least;
    }
    if (a->ranks_per_node != b->ranks_per_node) return a->ranks_per_node < b->ranks_per_node;
    if (a->network_bytes_per_s_per_rank != b->network_bytes_per_s_per_rank) {
        return a->network_bytes_per_s_per_rank < b->network_bytes_per_s_per_rank;
    }
    return fabric_slower(a->intra, &a->torus, b->intra, &b->torus);
}

struct group_shape route_group(const struct cluster *cluster, const struct route_axes *axes,
                               const struct route_axes *mesh)
{
    return route_group_from(cluster, axes, mesh, &(struct route_axes){0}, 0);
}

// The ranks of a mesh that are in place 0 on all of these axes.
static struct lattice others(const struct route_axes *axes, const struct route_axes *fixed,
                             int rank_count)
{
    struct route_axes both = *axes;
    assert(axes->count + fixed->count <= ROUTE_AXIS_MAX);
    for (int i = 0; i < fixed->count; i++) {
        both.sizes[both.count] = fixed->sizes[i];
        both.strides[both.count++] = fixed->strides[i];
    }
    const struct lattice taken = lattice_of(&both);
    return complement(&taken, rank_count);
}

struct group_shape route_group_from(const struct cluster *cluster, const struct route_axes *axes,
                                    const struct route_axes *mesh, const struct route_axes *fixed,
                                    int first)
{
    int64_t rank_count = product(mesh->sizes, mesh->count);
    assert(rank_count >= 1 && (fixed->count ? 0 : first) + rank_count <= cluster->rank_count);
    struct lattice group = lattice_of(axes);
    const struct lattice whole = group;
    struct lattice starts = others(axes, fixed, (int)rank_count);
    int64_t size = product(group.sizes, group.count);
    int repeat = 1, gpus = cluster->nodes[0].gpus;
    bool are_alike = false;
    // Where all nodes are alike so are most groups: one of each kind is visited.
    if (cluster_is_uniform(cluster) && first % gpus == 0) {
        are_alike = ends_with_nodes(&group, gpus) && ends_with_nodes(&starts, gpus);
        repeat = fold_group(&group, gpus);
        fold_starts(&starts, gpus);
    }
    int digits[2 * ROUTE_AXIS_MAX + 1] = {0};
    int start = first;
    int crossing_count = count_crossing(cluster, &group, &starts, start);
    struct group_shape slowest = shape_from(cluster, &group, &whole, start, repeat);
    cross(cluster, crossing_count, &slowest);
    while (!are_alike && lattice_next(&starts, 0, digits, &start)) {
        struct group_shape shape = shape_from(cluster, &group, &whole, start, repeat);
        cross(cluster, crossing_count, &shape);
        if (group_shape_slower(&shape, &slowest)) slowest = shape;
    }
    assert(slowest.rank_count == size && "every rank is in a node");
    if (cluster->network.tier_count > 0 && slowest.node_count > 1)
        slowest.load = tiers_load(cluster, whole.sizes, whole.strides, whole.count);
    if (slowest.ranks_per_node == 1) slowest.torus = (struct torus_group){0};
    return slowest;
}

struct group_shape route_pair(const struct cluster *cluster, int rank_a, int rank_b, int beside)
{
    assert(rank_a < rank_b && rank_b < cluster->rank_count);
    const struct lattice pair = {1, {2}, {rank_b - rank_a}};
    struct group_shape shape = shape_from(cluster, &pair, &pair, rank_a, 1);
    cross(cluster, beside, &shape);
    if (cluster->network.tier_count > 0 && shape.node_count > 1)
        shape.load = tiers_load(cluster, pair.sizes, pair.strides, pair.count);
    if (shape.ranks_per_node == 1) shape.torus = (struct torus_group){0};
    return shape;
}
