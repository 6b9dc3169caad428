#include "tests/support/test.h"
#include "topologies/route.h"

#include <math.h>
#include <stdio.h>

enum { SEED = 20240607, TRIALS = 4000, RANKS_MAX = 4096 };

// xorshift64*: the same meshes on every machine.
static int random_below(uint64_t *random, int limit)
{
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return (int)((*random * UINT64_C(2685821657736338717) >> 33) % (uint64_t)limit);
}

static struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

// 1 to 3 kinds of nodes of odd sizes; sometimes all alike, in one group or in several.
static struct cluster random_cluster(struct arena *arena, uint64_t *random,
                                     const struct device *device)
{
    struct cluster cluster = {.name = "random"};
    cluster.node_group_count = 1 + random_below(random, 3);
    cluster.nodes = ARENA_NEW(arena, struct node_group, cluster.node_group_count);
    cluster.network.oversubscription_ratio = 1 + random_below(random, 3);
    bool is_uniform = random_below(random, 2) == 0;
    for (int i = 0; i < cluster.node_group_count; i++) {
        struct node_group *group = &cluster.nodes[i];
        if (i > 0 && is_uniform) *group = cluster.nodes[0];
        group->count = 1 + random_below(random, 24);
        if (i == 0 || !is_uniform) {
            group->gpus = group->gpus_per_host = 1 + random_below(random, 12);
            group->device = device;
            group->intra.kind = "nvlink";
            group->intra.bandwidth_bytes_per_s = 1e9 * (1 + random_below(random, 40));
            group->intra.latency_s = 1e-6 * random_below(random, 3);
            if (group->gpus == 1) group->intra = (struct intra_fabric){.kind = ""};
            group->nics.count = 1 + random_below(random, 8);
            group->nics.bandwidth_bytes_per_s = 1e9 * (1 + random_below(random, 4));
        }
        cluster.node_count += group->count;
        cluster.rank_count += group->count * group->gpus;
    }
    cluster.rank_count -= random_below(random, cluster.nodes[cluster.node_group_count - 1].gpus);
    return cluster;
}

// A mesh of random axes in a random order over as many ranks as fit.
static struct route_axes random_mesh(uint64_t *random, int rank_count)
{
    struct route_axes mesh = {.count = 1 + random_below(random, 5)};
    int stride = 1;
    for (int i = 0; i < mesh.count; i++) {
        int left = rank_count / stride;
        bool is_last = i == mesh.count - 1;
        int size = is_last && random_below(random, 2) ? left : 1 + random_below(random, 9);
        if (size > left) size = left;
        mesh.sizes[i] = size;
        mesh.strides[i] = stride;
        stride *= size;
    }
    for (int i = mesh.count - 1; i > 0; i--) {
        int j = random_below(random, i + 1);
        int size = mesh.sizes[i], old_stride = mesh.strides[i];
        mesh.sizes[i] = mesh.sizes[j], mesh.strides[i] = mesh.strides[j];
        mesh.sizes[j] = size, mesh.strides[j] = old_stride;
    }
    return mesh;
}

// Coordinates of `index` in the chosen axes (`is_group` or not), as a rank.
static int rank_at(const struct route_axes *mesh, const bool *chosen, bool wanted, int index)
{
    int rank = 0;
    for (int i = 0; i < mesh->count; i++) {
        if (chosen[i] != wanted) continue;
        rank += index % mesh->sizes[i] * mesh->strides[i];
        index /= mesh->sizes[i];
    }
    return rank;
}

static struct group_shape brute_shape(const struct cluster *cluster, const struct route_axes *mesh,
                                      const bool *chosen, int group_size, int start)
{
    static int ranks_in_node[RANKS_MAX];
    memset(ranks_in_node, 0, (size_t)cluster->node_count * sizeof *ranks_in_node);
    struct group_shape shape = {.rank_count = group_size, .network = &cluster->network};
    for (int i = 0; i < group_size; i++) {
        int rank = start + rank_at(mesh, chosen, true, i);
        const struct node_group *group = cluster_group_of(cluster, rank);
        ranks_in_node[cluster_node_of(cluster, rank)]++;
        double share = group->nics.count * group->nics.bandwidth_bytes_per_s / group->gpus;
        if (i == 0 || share < shape.network_bytes_per_s_per_rank) {
            shape.network_bytes_per_s_per_rank = share;
        }
    }
    int most = 0;
    for (int node = 0; node < cluster->node_count; node++)
        if (ranks_in_node[node] > most) most = ranks_in_node[node];
    for (int i = 0; i < group_size; i++) {
        int rank = start + rank_at(mesh, chosen, true, i);
        const struct node_group *group = cluster_group_of(cluster, rank);
        // Links of a node where nobody of the group meets carry nothing.
        if (most > 1 && ranks_in_node[cluster_node_of(cluster, rank)] == 1) continue;
        if (!shape.intra ||
            group->intra.bandwidth_bytes_per_s < shape.intra->bandwidth_bytes_per_s ||
            (group->intra.bandwidth_bytes_per_s == shape.intra->bandwidth_bytes_per_s &&
             group->intra.latency_s > shape.intra->latency_s)) {
            shape.intra = &group->intra;
        }
    }
    for (int node = 0; node < cluster->node_count; node++) {
        int ranks = ranks_in_node[node];
        if (ranks == 0) continue;
        if (ranks > shape.ranks_per_node) shape.ranks_per_node = ranks;
        if (shape.node_count == 0 || ranks < shape.ranks_per_node_least) {
            shape.ranks_per_node_least = ranks;
        }
        shape.node_count++;
    }
    if (shape.node_count > 1) {
        shape.network_bytes_per_s_per_rank /= cluster->network.oversubscription_ratio;
    }
    return shape;
}

// What the header says the slowest group is: ascending in each of these, the first difference wins.
enum { ORDER_COUNT = 7 };
static void order_of(const struct group_shape *shape, double order[ORDER_COUNT])
{
    double intra = shape->ranks_per_node > 1 ? shape->intra->bandwidth_bytes_per_s : INFINITY;
    double network = shape->node_count > 1
                         ? shape->ranks_per_node_least * shape->network_bytes_per_s_per_rank
                         : INFINITY;
    order[0] = fmin(intra, network);
    order[1] = -shape->node_count;
    order[2] = shape->ranks_per_node_least;
    order[3] = shape->ranks_per_node;
    order[4] = shape->network_bytes_per_s_per_rank;
    order[5] = shape->intra->bandwidth_bytes_per_s;
    order[6] = -shape->intra->latency_s;
}

static bool slower(const struct group_shape *a, const struct group_shape *b)
{
    double order_a[ORDER_COUNT], order_b[ORDER_COUNT];
    order_of(a, order_a);
    order_of(b, order_b);
    for (int i = 0; i < ORDER_COUNT; i++) {
        if (order_a[i] != order_b[i]) return order_a[i] < order_b[i];
    }
    return false;
}

// `fixed`: an axis on which groups are where `first` is; -1: none.
static struct group_shape brute_group(const struct cluster *cluster, const struct route_axes *mesh,
                                      const bool *chosen, int fixed, int first)
{
    int group_size = 1, group_count = 1;
    for (int i = 0; i < mesh->count; i++) {
        if (chosen[i]) group_size *= mesh->sizes[i];
        if (!chosen[i]) group_count *= mesh->sizes[i];
    }
    struct group_shape slowest = brute_shape(cluster, mesh, chosen, group_size, first);
    for (int group = 1; group < group_count; group++) {
        int offset = rank_at(mesh, chosen, false, group);
        if (fixed >= 0 && offset / mesh->strides[fixed] % mesh->sizes[fixed] > 0) continue;
        struct group_shape shape = brute_shape(cluster, mesh, chosen, group_size, first + offset);
        if (slower(&shape, &slowest)) slowest = shape;
    }
    return slowest;
}

static void assert_same(const struct group_shape *found, const struct group_shape *wanted)
{
    assert_int_equal(found->rank_count, wanted->rank_count);
    assert_int_equal(found->node_count, wanted->node_count);
    assert_int_equal(found->ranks_per_node, wanted->ranks_per_node);
    assert_int_equal(found->ranks_per_node_least, wanted->ranks_per_node_least);
    assert_true(found->network_bytes_per_s_per_rank == wanted->network_bytes_per_s_per_rank);
    assert_true(found->intra->bandwidth_bytes_per_s == wanted->intra->bandwidth_bytes_per_s);
    assert_true(found->intra->latency_s == wanted->intra->latency_s);
    assert_ptr_equal(found->network, wanted->network);
}

static void groups_equal_those_of_brute_force(void **state)
{
    struct arena *arena = *state;
    uint64_t random = SEED;
    const struct device *device = load(arena, "dgx-h100")->nodes[0].device;
    print_message("# seed %d\n", SEED);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(arena);
        struct cluster cluster = random_cluster(arena, &random, device);
        struct route_axes mesh = random_mesh(&random, cluster.rank_count), axes = {0};
        bool chosen[ROUTE_AXIS_MAX] = {0};
        struct route_axes fixed = {0};
        int ranks = 1, first = 0, axis = -1;
        for (int i = 0; i < mesh.count; i++)
            ranks *= mesh.sizes[i];
        // As a stage behind others has its ranks.
        if (trial % 2) first = random_below(&random, cluster.rank_count - ranks + 1);
        for (int i = 0; i < mesh.count; i++) {
            chosen[i] = random_below(&random, 2) == 0;
            if (!chosen[i]) continue;
            axes.sizes[axes.count] = mesh.sizes[i];
            axes.strides[axes.count++] = mesh.strides[i];
        }
        // As one of them has that are the places of an axis.
        if (trial % 4 == 0) axis = random_below(&random, mesh.count);
        if (axis >= 0 && chosen[axis]) axis = -1;
        if (axis >= 0) {
            fixed = (struct route_axes){1, {mesh.sizes[axis]}, {mesh.strides[axis]}};
            first = random_below(&random, mesh.sizes[axis]) * mesh.strides[axis];
        }
        struct group_shape found = first || axis >= 0
                                       ? route_group_from(&cluster, &axes, &mesh, &fixed, first)
                                       : route_group(&cluster, &axes, &mesh);
        struct group_shape wanted = brute_group(&cluster, &mesh, chosen, axis, first);
        assert_same(&found, &wanted);
        arena_reset(arena, mark);
    }
}

static void a_pair_is_a_group_of_two(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-h100-x2");
    struct group_shape inside = route_pair(cluster, 3, 7, 4);
    assert_int_equal(inside.node_count, 1);
    assert_int_equal(inside.ranks_per_node, 2);
    struct group_shape across = route_pair(cluster, 7, 8, 4);
    assert_int_equal(across.rank_count, 2);
    assert_int_equal(across.node_count, 2);
    assert_true(across.network_bytes_per_s_per_rank == 50e9);
    struct group_shape ends = route_pair(cluster, 0, 15, 4);
    assert_same(&across, &ends);
}

static void a_part_of_an_axis_is_a_group_too(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-h100-x8");
    struct route_axes coarse = {2, {2, 32}, {1, 2}}, fine = {3, {2, 8, 4}, {1, 2, 16}};
    struct route_axes inner = {1, {8}, {2}}, outer = {1, {4}, {16}};
    struct group_shape part = route_group(cluster, &inner, &coarse);
    struct group_shape whole = route_group(cluster, &inner, &fine);
    assert_same(&part, &whole);
    assert_int_equal(part.node_count, 2);
    part = route_group(cluster, &outer, &coarse);
    assert_int_equal(part.node_count, 4);
    assert_int_equal(part.ranks_per_node, 1);
}

static void tensor_ranks_stay_in_a_node_and_data_ranks_do_not(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-h100-x2048");
    struct route_axes mesh = {4, {8, 16, 4, 32}, {1, 8, 128, 512}};
    struct group_shape tp = route_group(cluster, &(struct route_axes){1, {8}, {1}}, &mesh);
    assert_int_equal(tp.node_count, 1);
    assert_int_equal(tp.ranks_per_node, 8);
    assert_true(tp.network_bytes_per_s_per_rank == 50e9);
    struct group_shape dp = route_group(cluster, &(struct route_axes){1, {16}, {8}}, &mesh);
    assert_int_equal(dp.node_count, 16);
    assert_int_equal(dp.ranks_per_node, 1);
    assert_int_equal(dp.ranks_per_node_least, 1);
    struct group_shape all = route_group(cluster, &mesh, &mesh);
    assert_int_equal(all.rank_count, 16384);
    assert_int_equal(all.node_count, 2048);
    assert_int_equal(all.ranks_per_node_least, 8);
}

static void six_ranks_straddle_nodes_of_eight(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-h100-x3");
    struct route_axes mesh = {2, {6, 4}, {1, 6}};
    struct group_shape shape = route_group(cluster, &(struct route_axes){1, {6}, {1}}, &mesh);
    assert_int_equal(shape.node_count, 2);
    assert_int_equal(shape.ranks_per_node, 4);  // ranks 6 to 11 are split 2 and 4
    assert_int_equal(shape.ranks_per_node_least, 2);
}

static void a_million_ranks_are_no_trouble(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-h100-x131072");
    struct route_axes mesh = {2, {3, 349525}, {1, 3}};  // nothing divides
    struct group_shape shape = route_group(cluster, &(struct route_axes){1, {349525}, {3}}, &mesh);
    assert_int_equal(shape.rank_count, 349525);
    assert_int_equal(shape.ranks_per_node, 3);
    assert_true(shape.node_count > 131071 && shape.node_count <= 131072);
}

static void a_group_of_one_rank_is_at_home(void **state)
{
    const struct cluster *cluster = load(*state, "dgx-a100-80g-x2");
    struct route_axes mesh = {1, {16}, {1}}, none = {0};
    struct group_shape shape = route_group(cluster, &none, &mesh);
    assert_int_equal(shape.rank_count, 1);
    assert_int_equal(shape.node_count, 1);
    assert_int_equal(shape.ranks_per_node, 1);
    assert_string_equal(shape.intra->kind, "nvswitch");
}

// Two groups of two nodes of 8, joined by 40 GB/s with a millisecond: NICs have 8 x 50.
static void a_link_between_groups_of_nodes_is_shared_by_all_that_cross_it(void **state)
{
    const struct cluster *cluster = load(*state, "tests/data/cluster_between.json");
    struct route_axes mesh = {2, {8, 4}, {1, 8}}, all = {2, {8, 4}, {1, 8}};
    struct route_axes inside = {1, {8}, {1}}, across = {1, {4}, {8}}, pair = {1, {2}, {8}};
    struct group_shape shape = route_group(cluster, &all, &mesh);
    assert_string_equal(shape.network->kind, "ethernet");
    assert_true(shape.network->latency_s == 1e-3);
    assert_true(shape.crossing_bytes_per_s == 40e9);
    // One ring, in 8 lanes on each node; 16 ranks of each side send to 16 of 32.
    assert_true(shape.network_bytes_per_s_per_rank == 5e9);
    assert_true(shape.crossing_ratio == 8);
    shape = route_group(cluster, &across, &mesh);
    assert_true(shape.network_bytes_per_s_per_rank == 5e9 && shape.crossing_bytes_per_s == 5e9);
    assert_true(shape.crossing_ratio == 1);
    shape = route_group(cluster, &inside, &mesh);
    assert_true(shape.node_count == 1 && shape.crossing_ratio == 0);
    // Of the pairs of nodes none crosses, each has its NICs.
    struct route_axes pairs = {3, {8, 2, 2}, {1, 8, 16}};
    shape = route_group(cluster, &pair, &pairs);
    assert_string_equal(shape.network->kind, "infiniband");
    assert_true(shape.network_bytes_per_s_per_rank == 50e9 && shape.crossing_ratio == 0);
}

static void all_lanes_of_a_node_share_its_nics(void **state)
{
    struct route_axes mesh = {2, {16, 2}, {1, 16}}, pair = {1, {2}, {16}};
    struct group_shape shape = route_group(load(*state, "dgx2-v100-x2"), &pair, &mesh);
    assert_true(shape.network_bytes_per_s_per_rank == 12.5e9 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_equal_those_of_brute_force),
        cmocka_unit_test(a_pair_is_a_group_of_two),
        cmocka_unit_test(a_part_of_an_axis_is_a_group_too),
        cmocka_unit_test(tensor_ranks_stay_in_a_node_and_data_ranks_do_not),
        cmocka_unit_test(six_ranks_straddle_nodes_of_eight),
        cmocka_unit_test(a_million_ranks_are_no_trouble),
        cmocka_unit_test(a_group_of_one_rank_is_at_home),
        cmocka_unit_test(a_link_between_groups_of_nodes_is_shared_by_all_that_cross_it),
        cmocka_unit_test(all_lanes_of_a_node_share_its_nics),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
