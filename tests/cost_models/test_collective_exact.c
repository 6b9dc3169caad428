#include "cost_models/collective.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// Prices worked by hand from the formulas of cost_models/collective.h, over two links of round
// numbers. A wire inside nodes: 100 GB/s, half of it in a ring, 4 us before and 1 us a step at a
// latency of 1 us; ours has 2 us, so a step takes 2 us and one of a tree 6 us.
// A cable between nodes: a rank's share of 10 GB/s, 0.8 of it, 10 us before and 2 us a step at a
// latency of 1 us; ours has 3 us, so a step takes 6 us and one of a tree 15 us.
static const struct fabric WIRE = {
    .kind = "wire",
    .latency_s = 1e-6,
    .efficiency_ratio = 0.5,
    .tree_bandwidth_ratio = 0.5,
    .all_to_all_efficiency_ratio = 0.25,
    .send_efficiency_ratio = 0.8,
    .in_network_ranks_least = 4,
    .protocols = {[PROTOCOL_SIMPLE] = {4e-6, 1e-6, 3e-6, 1}},
};
static const struct fabric CABLE = {
    .kind = "cable",
    .latency_s = 1e-6,
    .efficiency_ratio = 0.8,
    .tree_bandwidth_ratio = 0.4,
    .all_to_all_efficiency_ratio = 0.5,
    .send_efficiency_ratio = 0.6,
    .protocols = {[PROTOCOL_SIMPLE] = {10e-6, 2e-6, 5e-6, 1}},
};

struct world {
    struct fabric rows[2];
    struct fabrics fabrics;
    struct intra_fabric intra;
    struct network network;
    struct group_shape group;
};

static struct world *world_of(struct arena *arena, int nodes, int ranks_per_node)
{
    struct world *world = ARENA_NEW(arena, struct world, 1);
    world->rows[0] = WIRE;
    world->rows[1] = CABLE;
    world->fabrics = (struct fabrics){world->rows, 2};
    world->intra.kind = "wire";
    world->intra.bandwidth_bytes_per_s = 100e9;
    world->intra.latency_s = 2e-6;
    world->network.kind = "cable";
    world->network.latency_s = 3e-6;
    world->group = (struct group_shape){.rank_count = nodes * ranks_per_node,
                                        .node_count = nodes,
                                        .ranks_per_node = ranks_per_node,
                                        .ranks_per_node_least = ranks_per_node,
                                        .intra = &world->intra,
                                        .network = &world->network,
                                        .network_bytes_per_s_per_rank = 10e9};
    return world;
}

static void check_cost(const struct collective_cost *cost, enum algorithm algorithm,
                       double latency_s, double bandwidth_s)
{
    if (cost->algorithm != algorithm || fabs(cost->latency_s / latency_s - 1) > 1e-9 ||
        fabs(cost->bandwidth_s / bandwidth_s - 1) > 1e-9) {
        print_error("%s %.10g + %.10g s, by hand %s %.10g + %.10g s\n",
                    algorithm_name(cost->algorithm), cost->latency_s, cost->bandwidth_s,
                    algorithm_name(algorithm), latency_s, bandwidth_s);
        fail();
    }
}

static void check_price(const struct world *world, enum collective collective, double bytes,
                        double scale, enum algorithm algorithm, double latency_s,
                        double bandwidth_s)
{
    struct collective_cost cost =
        collective_price(&world->fabrics, &world->group, collective, bytes, scale);
    check_cost(&cost, algorithm, latency_s, bandwidth_s);
}

// So many lost packets that a byte between nodes costs a picosecond, a GB a millisecond.
static struct world *lossy_world_of(struct arena *arena, int nodes, int ranks_per_node)
{
    struct world *world = world_of(arena, nodes, ranks_per_node);
    world->network.loss_ratio = 1e-8 * NETWORK_PACKET_BYTES;
    world->network.loss_stall_s = 1e-4;
    return world;
}

// What passes between nodes: of a message all of it, of an exchange half of what each of 8 ranks
// has, of a ring what a rank sends once a node. A tree of 16 nodes has 15 links which all of it
// passes up and down; a gather in two levels brings each of 15 nodes the rest once.
static void lost_packets_hold_up_what_passes_between_nodes(void **state)
{
    struct world *world = lossy_world_of(*state, 2, 4);
    check_price(world, COLLECTIVE_SEND_RECV, 1e9, 0.5, ALGORITHM_DIRECT, 16e-6, 1e9 / 3e9 + 1e-3);
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT, 34e-6, 0.2 + 4e-3);
    world->group.ranks_per_node = 5;
    world->group.ranks_per_node_least = 3;
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 0.5, ALGORITHM_RING, 28e-6,
                7.0 / 8 * 1e9 / 12e9 + 1.75e-3);
    world = lossy_world_of(*state, 16, 4);
    check_price(world, COLLECTIVE_ALL_REDUCE, 1200, 0.5, ALGORITHM_TREE, 166e-6, 375e-9 + 36e-9);
    check_price(world, COLLECTIVE_ALL_GATHER, 1e6, 0.5, ALGORITHM_HIERARCHICAL, 116e-6,
                15e-6 + 58.59375e-6 + 15e-6);
    check_price(world, COLLECTIVE_ALL_REDUCE, 4e6, 0.5, ALGORITHM_HIERARCHICAL, 222e-6,
                120e-6 + 468.75e-6 + 120e-6);
    world = lossy_world_of(*state, 1, 4);
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 1, ALGORITHM_RING, 4e-6 + 6e-6, 0.015);
}

// 4 ranks, 1 GB at 50 GB/s. Gather: 3 steps of 2 us, 3/4 GB. Reduce: twice both.
static void a_ring_in_a_node(void **state)
{
    struct world *world = world_of(*state, 1, 4);
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 1, ALGORITHM_RING, 4e-6 + 6e-6, 0.015);
    check_price(world, COLLECTIVE_REDUCE_SCATTER, 1e9, 1, ALGORITHM_RING, 4e-6 + 6e-6, 0.015);
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 1, ALGORITHM_RING, 4e-6 + 12e-6, 0.030);
}

// 8 ranks as 5 and 3: 3 rails at 10 GB/s of 0.8, half of it for the stack, are 12 GB/s. Of 7 steps
// 1 leaves a node. Reduce: 12 and 2 steps.
static void a_ring_over_uneven_nodes(void **state)
{
    struct world *world = world_of(*state, 2, 4);
    world->group.ranks_per_node = 5;
    world->group.ranks_per_node_least = 3;
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 0.5, ALGORITHM_RING, 10e-6 + 6 * 2e-6 + 6e-6,
                7.0 / 8 * 1e9 / 12e9);
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 0.5, ALGORITHM_RING,
                10e-6 + 12 * 2e-6 + 2 * 6e-6, 2 * 7.0 / 8 * 1e9 / 12e9);
    // Ten times the network and the wire's 50 GB/s decide.
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 5, ALGORITHM_RING, 10e-6 + 6 * 2e-6 + 6e-6,
                7.0 / 8 * 1e9 / 50e9);
}

// 64 ranks of 16 nodes, 1,200 bytes: a chain of 3 up and down at 6 us, 4 levels of nodes at 15 us,
// 0.4 of 4 rails of 10 GB/s at 0.8 and half for the stack. A ring's steps alone are 372 us.
static void a_tree_over_many_nodes(void **state)
{
    struct world *world = world_of(*state, 16, 4);
    check_price(world, COLLECTIVE_ALL_REDUCE, 1200, 0.5, ALGORITHM_TREE,
                10e-6 + 2 * 3 * 6e-6 + 2 * 4 * 15e-6, 2 * 1200 / (0.4 * 16e9));
}

// The same, a gather of 1 MB in two levels: started twice, 3 steps in the node, 15 between, 3/4 of
// it at 50 GB/s and 15/16 at 16 GB/s. A reduction of 4 MB is started three times and does both.
static void two_levels(void **state)
{
    struct world *world = world_of(*state, 16, 4);
    check_price(world, COLLECTIVE_ALL_GATHER, 1e6, 0.5, ALGORITHM_HIERARCHICAL,
                2 * 10e-6 + 3 * 2e-6 + 15 * 6e-6, 15e-6 + 58.59375e-6);
    check_price(world, COLLECTIVE_ALL_REDUCE, 4e6, 0.5, ALGORITHM_HIERARCHICAL,
                3 * 10e-6 + 6 * 2e-6 + 30 * 6e-6, 120e-6 + 468.75e-6);
}

// NVLS of 4 ranks: 4 us, the switch's 7 us twice as far, a ring's bytes at 90 of 100 GB/s. Three
// ranks are too few for it, and a gather has no sum.
static void a_switch_adds_up_in_a_node(void **state)
{
    struct world *world = world_of(*state, 1, 4);
    world->intra.in_network_reduction = true;
    world->rows[0].reduce_efficiency_ratio = 0.9;
    world->rows[0].reduce_latency_s = 7e-6;
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 1, ALGORITHM_IN_NETWORK, 4e-6 + 14e-6,
                1.5e9 / 90e9);
    check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 1, ALGORITHM_RING, 10e-6, 0.015);
    world->group.rank_count = world->group.ranks_per_node = world->group.ranks_per_node_least = 3;
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 1, ALGORITHM_RING, 4e-6 + 4 * 2e-6,
                4.0 / 3 * 1e9 / 50e9);
}

// SHARP over 2 nodes of 4: 10 us, the switch's 1 us thrice as far, 6 steps in the node. A GB passes
// once at 4 rails of 10 GB/s at 0.8 and half for the stack; with a network ten times as fast the
// node's ring of 7/4 GB at 50 GB/s lasts longer.
static void a_switch_adds_up_between_nodes(void **state)
{
    struct world *world = world_of(*state, 2, 4);
    world->network.in_network_reduction = true;
    world->rows[1].reduce_efficiency_ratio = 0.8;
    world->rows[1].reduce_latency_s = 1e-6;
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 0.5, ALGORITHM_IN_NETWORK,
                10e-6 + 3e-6 + 6 * 2e-6, 0.0625);
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 5, ALGORITHM_IN_NETWORK, 10e-6 + 3e-6 + 6 * 2e-6,
                0.035);
    // Without one that can add, nobody offers it.
    world->network.in_network_reduction = false;
    check_price(world, COLLECTIVE_ALL_REDUCE, 1e9, 0.5, ALGORITHM_HIERARCHICAL,
                3 * 10e-6 + 6 * 2e-6 + 2 * 6e-6, 1.5e9 / 50e9 + 1e9 / 16e9);
}

// One step and its share of the link: 80 GB/s in the node, 3 GB/s between nodes for half a network.
static void a_message_to_a_neighbour(void **state)
{
    check_price(world_of(*state, 1, 4), COLLECTIVE_SEND_RECV, 1e9, 0.5, ALGORITHM_DIRECT,
                4e-6 + 2e-6, 1e9 / 80e9);
    check_price(world_of(*state, 2, 4), COLLECTIVE_SEND_RECV, 1e9, 0.5, ALGORITHM_DIRECT,
                10e-6 + 6e-6, 1e9 / 3e9);
}

// 8 ranks of 2 nodes: 3/8 GB at 25 GB/s in the node, 4/8 at 2.5 GB/s between; 4 peers there, of
// which the first takes a step and so do the 3 others where no protocol is faster, 6 us each.
static void everyone_to_everyone(void **state)
{
    struct world *world = world_of(*state, 2, 4);
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT, 10e-6 + 4 * 6e-6, 0.2);
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 500, ALGORITHM_DIRECT, 10e-6 + 4 * 6e-6, 0.015);
    // Nodes of one rank have half a GB for each other and nothing inside.
    check_price(world_of(*state, 2, 1), COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT,
                10e-6 + 6e-6, 0.2);
    // Alone in its node a rank has 3 peers of 2 us each.
    check_price(world_of(*state, 1, 4), COLLECTIVE_ALL_TO_ALL, 1e9, 1, ALGORITHM_DIRECT,
                4e-6 + 3 * 2e-6, 0.75e9 / 25e9);
}

// What crosses the middle of the network passes it at a quarter of its rate, as what goes between
// nodes does: 8 GB at 20 GB/s are slower than those 0.2 s, at 80 GB/s faster; and three loads on
// the links make either three times as slow.
static void everyone_to_everyone_crosses_the_middle(void **state)
{
    struct world *world = world_of(*state, 2, 4);
    world->group.crossing_ratio = 8;
    world->group.crossing_bytes_per_s = 80e9;
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT, 34e-6, 0.4);
    world->group.crossing_bytes_per_s = 320e9;
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT, 34e-6, 0.2);
    world->group.load.all_to_all = 3;
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 0.5, ALGORITHM_DIRECT, 34e-6, 0.6);
}

// All bytes pass every link: 1 GB at 50 GB/s, 3 steps.
static void a_broadcast_passes_all_bytes_over_every_link(void **state)
{
    struct world *world = world_of(*state, 1, 4);
    struct collective_cost cost = broadcast_price(&world->fabrics, &world->group, 1e9, 1);
    check_cost(&cost, ALGORITHM_RING, 4e-6 + 3 * 2e-6, 0.020);
}

// A token's 2 rows go to 2 of 4 groups. Of 2 nodes with 2 groups each, one holds one of the open
// groups in 4 of 6 cases, both in 1: 2 (4/6 (1 - 1/4) + 1/6) = 4/3 nodes, half of them others. Of 8
// ranks 4 are open: 4 (1 - (3/4)^2) = 1.75, 3/4 of them not the one where they come in.
static void a_dispatch_goes_to_the_open_groups(void **state)
{
    struct world *world = world_of(*state, 2, 4);
    struct routing routing = {.rows = 2, .group_count = 4, .open_groups = 2};
    struct collective_cost cost =
        dispatch_price(&world->fabrics, &world->group, &routing, 1e9, 0.5);
    check_cost(&cost, ALGORITHM_DIRECT, 34e-6, 4.0 / 3 / 2 / 2 * 1e9 / 4e9);
    cost = dispatch_price(&world->fabrics, &world->group, &routing, 1e9, 100);
    check_cost(&cost, ALGORITHM_DIRECT, 34e-6, 1.75 / 2 * 0.75 * 1e9 / 50e9);
    // 3 nodes do not divide 4 groups: as if all were open, 3 (1 - (2/3)^2) = 5/3 nodes.
    world = world_of(*state, 3, 4);
    cost = dispatch_price(&world->fabrics, &world->group, &routing, 1e9, 0.5);
    check_cost(&cost, ALGORITHM_DIRECT, 10e-6 + 8 * 6e-6, 5.0 / 3 / 2 * 2 / 3 * 1e9 / 4e9);
    // Five rows to one open group of 4 reach at most that one of 3 nodes.
    routing = (struct routing){.rows = 5, .group_count = 4, .open_groups = 1};
    cost = dispatch_price(&world->fabrics, &world->group, &routing, 1e9, 0.5);
    check_cost(&cost, ALGORITHM_DIRECT, 10e-6 + 8 * 6e-6, 1.0 / 5 * 2 / 3 * 1e9 / 4e9);
    // With all groups open they are none: 2 (1 - (1/2)^2) = 1.5 of 2 nodes.
    world = world_of(*state, 2, 4);
    routing = (struct routing){.rows = 2, .group_count = 4, .open_groups = 4};
    cost = dispatch_price(&world->fabrics, &world->group, &routing, 1e9, 0.5);
    check_cost(&cost, ALGORITHM_DIRECT, 34e-6, 1.5 / 2 / 2 * 1e9 / 4e9);
}

// 0.4 up to 4 ranks, 0.8 from 8 on, between them in proportion.
static void a_group_s_share_of_the_link_is_read_between_points(void **state)
{
    static const struct {
        int ranks;
        double ratio;
    } CASES[] = {{2, 0.4}, {4, 0.4}, {5, 0.5}, {6, 0.6}, {8, 0.8}, {16, 0.8}};
    struct group_efficiency points[] = {{4, 0.4}, {8, 0.8}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int n = CASES[i].ranks;
        struct world *world = world_of(*state, 1, n);
        world->rows[0].group_efficiency = points;
        world->rows[0].group_efficiency_count = 2;
        check_price(world, COLLECTIVE_ALL_GATHER, 1e9, 1, ALGORITHM_RING, 4e-6 + (n - 1) * 2e-6,
                    (n - 1) * 1e9 / n / (CASES[i].ratio * 100e9));
    }
}

// A second protocol starts at 1 us, steps in 0.25 us and has a quarter of the rate. 100 kB: 2.5 us
// and 6 us against 10 us and 1.5 us; 200 kB: 12 us against 3 us. Where the network has none of it,
// it does not run.
static void the_faster_protocol_is_taken(void **state)
{
    struct world *world = world_of(*state, 1, 4);
    world->rows[0].protocols[PROTOCOL_LL] = (struct fabric_protocol){1e-6, 0.25e-6, 1e-6, 0.25};
    check_price(world, COLLECTIVE_ALL_GATHER, 1e5, 1, ALGORITHM_RING, 1e-6 + 1.5e-6, 6e-6);
    check_price(world, COLLECTIVE_ALL_GATHER, 2e5, 1, ALGORITHM_RING, 10e-6, 3e-6);
    // Of an exchange of large messages the further peers add a step of the fast one.
    check_price(world, COLLECTIVE_ALL_TO_ALL, 1e9, 1, ALGORITHM_DIRECT, 4e-6 + 2e-6 + 2 * 0.5e-6,
                0.030);
    world->group.rank_count = 8;
    world->group.node_count = 2;
    struct collective_cost cost =
        collective_price(&world->fabrics, &world->group, COLLECTIVE_ALL_GATHER, 8, 1);
    assert_int_equal(cost.protocol, PROTOCOL_SIMPLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_packets_hold_up_what_passes_between_nodes),
        cmocka_unit_test(a_ring_in_a_node),
        cmocka_unit_test(a_ring_over_uneven_nodes),
        cmocka_unit_test(a_tree_over_many_nodes),
        cmocka_unit_test(two_levels),
        cmocka_unit_test(a_switch_adds_up_in_a_node),
        cmocka_unit_test(a_switch_adds_up_between_nodes),
        cmocka_unit_test(a_message_to_a_neighbour),
        cmocka_unit_test(everyone_to_everyone),
        cmocka_unit_test(everyone_to_everyone_crosses_the_middle),
        cmocka_unit_test(a_broadcast_passes_all_bytes_over_every_link),
        cmocka_unit_test(a_dispatch_goes_to_the_open_groups),
        cmocka_unit_test(a_group_s_share_of_the_link_is_read_between_points),
        cmocka_unit_test(the_faster_protocol_is_taken),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
