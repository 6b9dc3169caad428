#include "cost_models/collective.h"
#include "tests/support/test.h"

#include <math.h>

static const struct fabrics *shipped(struct arena *arena)
{
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    return fabrics;
}

static struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

// 16 nodes of 8 in blocks of 4 with a quarter upward: exact to what the NICs alone take.
static void switches_slow_what_leaves_their_blocks(void **state)
{
    static const struct {
        enum collective collective;
        int count, stride;
        double slower;  // in bandwidth
    } CASES[] = {
        {COLLECTIVE_ALL_GATHER, 4, 8, 1},     // inside a block
        {COLLECTIVE_ALL_GATHER, 16, 8, 1},    // a ring leaves a block once, of four nodes
        {COLLECTIVE_ALL_GATHER, 4, 32, 4},    // one node of each block
        {COLLECTIVE_ALL_TO_ALL, 16, 8, 3.2},  // 12 of 15 others outside: 4 x 12 / 15
        {COLLECTIVE_SEND_RECV, 16, 8, 1},    {COLLECTIVE_SEND_RECV, 4, 32, 4},
    };
    const struct fabrics *fabrics = shipped(*state);
    struct cluster *cluster = load(*state, "dgx-h100-x16");
    struct route_axes mesh = {.count = 1, .sizes = {128}, .strides = {1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct route_axes axes = {
            .count = 1, .sizes = {CASES[i].count}, .strides = {CASES[i].stride}};
        cluster->network.tier_count = 0;
        struct group_shape group = route_group(cluster, &axes, &mesh);
        double plain = collective_price(fabrics, &group, CASES[i].collective, 1e9, 1).bandwidth_s;
        cluster->network.tier_count = 1;
        cluster->network.tiers[0] = (struct network_tier){.nodes = 4, .oversubscription_ratio = 4};
        group = route_group(cluster, &axes, &mesh);
        double found = collective_price(fabrics, &group, CASES[i].collective, 1e9, 1).bandwidth_s;
        assert_true(fabs(found - CASES[i].slower * plain) < 1e-9 * found);
    }
}

// Where switches join rails, what is for another rail passes the node's own links, too.
static void other_rails_are_reached_inside_the_node(void **state)
{
    const struct fabrics *fabrics = shipped(*state);
    struct cluster *cluster = load(*state, "dgx-h100-x2");
    cluster->nodes[0].intra.bandwidth_bytes_per_s = 10e9;
    struct route_axes all = {.count = 1, .sizes = {16}, .strides = {1}};
    struct group_shape group = route_group(cluster, &all, &all);
    double plain = collective_price(fabrics, &group, COLLECTIVE_ALL_TO_ALL, 1e9, 1).bandwidth_s;
    assert_true(cluster->network.rail_optimized);
    cluster->network.tier_count = 1;
    cluster->network.tiers[0] = (struct network_tier){.nodes = 2, .oversubscription_ratio = 1};
    group = route_group(cluster, &all, &all);
    double found = collective_price(fabrics, &group, COLLECTIVE_ALL_TO_ALL, 1e9, 1).bandwidth_s;
    // 7/16 stay in the node; of the 8/16 for the other one 7/8 change rails.
    assert_true(fabs(found - plain * (7.0 / 16 + 7.0 / 16) / (7.0 / 16)) < 1e-9 * found);
    cluster->network.rail_optimized = false;
    group = route_group(cluster, &all, &all);
    found = collective_price(fabrics, &group, COLLECTIVE_ALL_TO_ALL, 1e9, 1).bandwidth_s;
    assert_true(found == plain);
}

// A packet of 4,096 bytes in a million is lost and costs 10 ms: what all links carry is counted.
static void lost_packets_stall_a_collective(void **state)
{
    static const struct {
        const char *cluster;
        enum collective collective;
        int count, stride;
        double passed;  // over the network, of the payload
    } CASES[] = {
        {"dgx-h100-x4", COLLECTIVE_ALL_GATHER, 4, 8, 3},
        {"dgx-a100-80g-x4", COLLECTIVE_ALL_GATHER, 32, 1, 4 * 31.0 / 32},
        {"dgx-h100-x4", COLLECTIVE_ALL_TO_ALL, 4, 8, 3},
        {"dgx-h100-x4", COLLECTIVE_SEND_RECV, 2, 8, 1},
        {"dgx-h100-x4", COLLECTIVE_ALL_GATHER, 8, 1, 0},
    };
    const struct fabrics *fabrics = shipped(*state);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct cluster *cluster = load(*state, CASES[i].cluster);
        struct route_axes axes = {
            .count = 1, .sizes = {CASES[i].count}, .strides = {CASES[i].stride}};
        struct route_axes mesh = {.count = 1, .sizes = {32}, .strides = {1}};
        struct group_shape group = route_group(cluster, &axes, &mesh);
        struct collective_cost plain =
            collective_price(fabrics, &group, CASES[i].collective, 1e9, 1);
        cluster->network.loss_ratio = 1e-6;
        cluster->network.loss_stall_s = 0.01;
        struct collective_cost found =
            collective_price(fabrics, &group, CASES[i].collective, 1e9, 1);
        double stalls_s = CASES[i].passed * 1e9 / 4096 * 1e-6 * 0.01;
        assert_int_equal(found.algorithm, plain.algorithm);
        assert_true(fabs(found.s - plain.s - stalls_s) < 1e-9 * found.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_slow_what_leaves_their_blocks),
        cmocka_unit_test(other_rails_are_reached_inside_the_node),
        cmocka_unit_test(lost_packets_stall_a_collective),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
