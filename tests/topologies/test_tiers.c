#include "tests/support/test.h"
#include "topologies/route.h"

#include <math.h>

static struct cluster *cluster_of(struct arena *arena, int nodes, const struct network_tier *tiers)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    assert_string_equal(err.text, "");
    bool ok = cluster_set_nodes(cluster, nodes, &err);
    assert_true(ok);
    for (; tiers[cluster->network.tier_count].nodes > 0; cluster->network.tier_count++)
        cluster->network.tiers[cluster->network.tier_count] = tiers[cluster->network.tier_count];
    return cluster;
}

static struct network_load load_of(const struct cluster *cluster, int size, int stride)
{
    struct route_axes group = {.count = 1, .sizes = {size}, .strides = {stride}};
    struct route_axes mesh = {.count = 3,
                              .sizes = {stride, size, cluster->rank_count / (size * stride)},
                              .strides = {1, stride, size * stride}};
    return route_group(cluster, &group, &mesh).load;
}

static const struct network_tier FAT_TREE[] = {{4, 2, false, 0}, {16, 4, false, 0}, {0}};
static const struct network_tier DRAGONFLY[] = {{4, 2, true, 0}, {0}};

// Blocks of 4 nodes of 8 GPUs, of 16 nodes, and 64 nodes in all; ratios 2 and 8.
static void groups_of_a_fat_tree_by_hand(void **state)
{
    struct cluster *cluster = cluster_of(*state, 64, FAT_TREE);
    static const struct {
        int size, stride;
        double ring, all_to_all, send;
    } CASES[] = {
        // In a node, in a block of the first tier: nothing leaves it.
        {8, 1, 0, 0, 0},
        {32, 1, 0, 0, 0},
        {4, 8, 0, 0, 0},
        // A block of the second tier, one rank a node: 4 nodes in a block of the first; of the 15
        // other nodes 12 are outside.
        {16, 8, 2.0 / 4, 2 * 12.0 / 15, 2.0 / 4},
        // All nodes: 16 in a block, of 63 others 48 outside, 60 outside of the smaller one; of 2 /
        // 4
        // and 8 / 16 the larger.
        {64, 8, 0.5, 8 * 48.0 / 63, 8.0 / 16},
        // All ranks: of those outside of the node the same shares; of 128 ranks one sends on.
        {512, 1, 0.5, 8 * 48.0 / 63, 8.0 / 128},
        // One node of each block of the first tier; one of each block of the second.
        {4, 32, 2, 2, 2},
        {4, 128, 8, 8, 8},
        // Two nodes, of two blocks of the second tier.
        {2, 256, 8, 8, 8},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct network_load load = load_of(cluster, CASES[i].size, CASES[i].stride);
        assert_true(fabs(load.ring - CASES[i].ring) < 1e-12);
        assert_true(fabs(load.all_to_all - CASES[i].all_to_all) < 1e-12);
        bool is_send = fabs(load.send - CASES[i].send) < 1e-12;
        // Of all ranks the block of the first tier decides: one of 32 ranks sends on at 2.
        assert_true(is_send || fabs(load.send - fmax(CASES[i].send, 2.0 / 32)) < 1e-12);
    }
}

// 16 blocks of 4 nodes, each with links to the 15 others of half its NICs.
static void groups_of_a_dragonfly_by_hand(void **state)
{
    struct cluster *cluster = cluster_of(*state, 64, DRAGONFLY);
    // To the next block alone: by way of others, every byte over two links. 2 x 2 / 4 nodes.
    struct network_load all = load_of(cluster, 64, 8);
    assert_true(all.ring == 1 && all.send == 1);
    // To all of them: each link has its own; 60 of 63 nodes are outside.
    assert_true(fabs(all.all_to_all - 2 * 60.0 / 63) < 1e-12);
    // One node of each of two blocks: 4 times as long, for all three.
    struct network_load two = load_of(cluster, 2, 32);
    assert_true(two.ring == 4 && two.all_to_all == 4 && two.send == 4);
    // Of each of 8: 15 / 7 directly is more than 2 by way of others; of all 16 directly.
    assert_true(load_of(cluster, 8, 64).all_to_all == 4);
    assert_true(load_of(cluster, 16, 32).all_to_all == 2);
    // Two blocks have one link between them and no others.
    assert_true(load_of(cluster_of(*state, 8, DRAGONFLY), 2, 32).ring == 2);
}

// What passes a block's links upward when every node of every group sends at its NICs' rate, over
// what they carry: counted message by message.
static double counted(const struct cluster *cluster, int size, int stride, bool is_ring)
{
    const int gpus = cluster->nodes[0].gpus;
    double busiest = 0, ratio = 1;
    for (int t = 0; t < cluster->network.tier_count; t++) {
        const struct network_tier *tier = &cluster->network.tiers[t];
        int ranks = tier->nodes * gpus;
        double leaves = 0, sent = 0;
        ratio *= tier->oversubscription_ratio;
        for (int rank = 0; rank < ranks; rank++) {  // of the first block
            int place = rank / stride % size, first = rank - place * stride;
            for (int i = 0; i < size; i++) {
                int to = first + i * stride;
                if (i == place || to / gpus == rank / gpus) continue;
                sent += 1;
                leaves += to / ranks != 0;
            }
        }
        if (is_ring) {
            // Rank i of a group sends to i + 1; those of a node over all its rails as one.
            leaves = 0, sent = ranks;
            int in_node = 0, node_of[512] = {0};
            for (int i = 0; i < size; i++)
                node_of[i] = i * stride / gpus, in_node += node_of[i] == 0;
            for (int start = 0; start < ranks; start++) {
                int place = start / stride % size;
                if (start - place * stride != start) continue;
                for (int i = 0; i < size; i++) {
                    int at = start + i * stride, next = start + (i + 1) % size * stride;
                    if (at / ranks == 0 && next / ranks != 0) leaves += in_node;
                }
            }
        }
        if (leaves > 0) busiest = fmax(busiest, ratio * leaves / sent);
    }
    return busiest;
}

static void loads_are_those_of_counted_messages(void **state)
{
    struct cluster *cluster = cluster_of(*state, 64, FAT_TREE);
    int checked = 0;
    for (int size = 2; size <= 512; size *= 2) {
        for (int stride = 1; size * stride <= 512; stride *= 2) {
            struct network_load load = load_of(cluster, size, stride);
            double ring = counted(cluster, size, stride, true);
            double all = counted(cluster, size, stride, false);
            assert_true(fabs(load.ring - ring) < 1e-9);
            assert_true(fabs(load.all_to_all - all) < 1e-9);
            checked += load.ring > 0;
        }
    }
    assert_true(checked > 15);
}

// 8 leaf switches of 4 NICs each hash 4 flows over 4 links, or one of 32 NICs over 32; every second
// node of a block sends on.
static void hashed_flows_meet_on_links(void **state)
{
    static const struct network_tier HASHED[] = {{4, 1, false, 32}, {0}};
    struct cluster *cluster = cluster_of(*state, 8, HASHED);
    cluster->network.flows_per_nic = 1;
    cluster->network.rail_optimized = true;
    // Four flows on four links: of 256 ways 24 have at most one a link, 204 two, 252 three. Of 16
    // switches the busiest link has 4 - (24/256)^16 - (204/256)^16 - (252/256)^16 flows.
    double by_rail = load_of(cluster, 2, 32).ring;
    double exact = 4 - pow(24.0 / 256, 16) - pow(204.0 / 256, 16) - pow(252.0 / 256, 16);
    assert_true(fabs(by_rail - exact) < 0.02 * exact);
    cluster->network.rail_optimized = false;
    double by_leaf = load_of(cluster, 2, 32).ring;
    assert_true(by_leaf > by_rail && by_leaf < 4.2);
    // Several flows a connection even out, and never below what an even spread takes.
    cluster->network.flows_per_nic = 16;
    double many = load_of(cluster, 2, 32).ring;
    assert_true(many > 1.3 && many < 2);
    cluster->network.tiers[0].uplinks = 0;
    assert_true(load_of(cluster, 2, 32).ring == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_a_fat_tree_by_hand),
        cmocka_unit_test(groups_of_a_dragonfly_by_hand),
        cmocka_unit_test(loads_are_those_of_counted_messages),
        cmocka_unit_test(hashed_flows_meet_on_links),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
