#include "core/file.h"
#include "tests/support/collective_case.h"

#include <math.h>
#include <stdio.h>

static void nvls_begins_at_five_ranks_on_hopper_and_six_on_blackwell(void **state)
{
    enum collective collective = COLLECTIVE_ALL_REDUCE;
    assert_int_equal(price(*state, "dgx-h100", 4, 1, collective, 1e9).algorithm, ALGORITHM_RING);
    struct group_shape group = group_of(load(*state, "dgx-h100"), 4, 1);
    group.rank_count = group.ranks_per_node = group.ranks_per_node_least = 5;
    struct collective_cost cost = collective_price(shipped(*state), &group, collective, 1e9, 1);
    assert_int_equal(cost.algorithm, ALGORITHM_IN_NETWORK);
    group = group_of(load(*state, "dgx-b200"), 4, 1);
    group.rank_count = group.ranks_per_node = group.ranks_per_node_least = 5;
    cost = collective_price(shipped(*state), &group, collective, 1e9, 1);
    assert_int_equal(cost.algorithm, ALGORITHM_RING);
}

// 64 ranks, 8 a node, 128 MiB a rank on dgx-h100 (450 GB/s links, 50 GB/s a NIC, each at its
// share): 7/64 of it stay in the node, 56/64 pass a NIC of the rank's own, side by side.
static void an_all_to_all_over_nodes_takes_its_slower_part(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x16");
    double link = 450e9 * shipped_fabric(*state, "nvswitch", 450e9)->all_to_all_efficiency_ratio;
    double nic = 50e9 * shipped_fabric(*state, "infiniband", 50e9)->all_to_all_efficiency_ratio;
    double bytes = 128 * 1024 * 1024, inside_s = 7.0 / 64 * bytes / link;
    double between_s = 56.0 / 64 * bytes / nic;
    struct group_shape group = group_of(cluster, 64, 1);
    assert_int_equal(group.node_count, 8);
    struct collective_cost cost =
        collective_price(shipped(*state), &group, COLLECTIVE_ALL_TO_ALL, bytes, 1);
    assert_true(between_s > 5 * inside_s);
    assert_true(fabs(cost.bandwidth_s / between_s - 1) < 1e-9);
    assert_int_equal(cost.algorithm, ALGORITHM_DIRECT);

    // Two ranks a node: 1/4 inside and 2/4 between; a network ten times as fast leaves the inside
    // behind nothing, a hundred times does.
    group.rank_count = 4, group.node_count = 2;
    group.ranks_per_node = group.ranks_per_node_least = 2;
    inside_s = 1.0 / 4 * bytes / link;
    between_s = 2.0 / 4 * bytes / nic;
    cost = collective_price(shipped(*state), &group, COLLECTIVE_ALL_TO_ALL, bytes, 10);
    assert_true(fabs(cost.bandwidth_s / (between_s / 10) - 1) < 1e-9);
    cost = collective_price(shipped(*state), &group, COLLECTIVE_ALL_TO_ALL, bytes, 100);
    assert_true(fabs(cost.bandwidth_s / inside_s - 1) < 1e-9);
}

// A node's NICs are shared by its ranks: with half of them the part between nodes takes twice.
static void an_all_to_all_has_its_rank_s_share_of_the_nics(void **state)
{
    struct group_shape group = group_of(load(*state, "dgx-h100-x16"), 64, 1);
    enum collective collective = COLLECTIVE_ALL_TO_ALL;
    double whole_s = collective_price(shipped(*state), &group, collective, 1e9, 1).bandwidth_s;
    group.network_bytes_per_s_per_rank /= 2;
    double half_s = collective_price(shipped(*state), &group, collective, 1e9, 1).bandwidth_s;
    assert_true(fabs(half_s / whole_s - 2) < 1e-9);
}

// 8 rows a token over 32 ranks of 4 nodes reach 4 (1 - (3/4)^8) = 3.5996 nodes, 3/4 of them others,
// and 32 (1 - (31/32)^8) = 7.1776 ranks, 7/8 of them not the one where they come in.
static void a_dispatch_sends_a_token_once_to_a_place(void **state)
{
    struct group_shape group = group_of(load(*state, "dgx-h100-x16"), 32, 1);
    const struct fabric *link = shipped_fabric(*state, "nvswitch", 450e9);
    const struct fabric *nic = shipped_fabric(*state, "infiniband", 50e9);
    double bytes = 512e6;
    struct routing eight = {.rows = 8}, single = {.rows = 1};
    double between_s = 3.599548 / 8 * 0.75 * bytes / (50e9 * nic->efficiency_ratio);
    struct collective_cost cost = dispatch_price(shipped(*state), &group, &eight, bytes, 1);
    assert_true(fabs(cost.bandwidth_s / between_s - 1) < 1e-6);
    double inside_s = 7.177604 / 8 * 0.875 * bytes / (450e9 * link->efficiency_ratio);
    cost = dispatch_price(shipped(*state), &group, &eight, bytes, 100);
    assert_true(fabs(cost.bandwidth_s / inside_s - 1) < 1e-6);
    // One row a token is a plain exchange, but for the kernels.
    struct collective_cost one = dispatch_price(shipped(*state), &group, &single, bytes, 1);
    struct collective_cost plain =
        collective_price(shipped(*state), &group, COLLECTIVE_ALL_TO_ALL, bytes, 1);
    double share_ratio = nic->all_to_all_efficiency_ratio / nic->efficiency_ratio;
    assert_true(fabs(one.bandwidth_s / plain.bandwidth_s / share_ratio - 1) < 1e-9);
}

// An empty message to each of n-1 peers: 6.6 us, a step of 2.7 us and 2.7 us for each further peer
// of another node; inside the node 0.6 us.
static void an_all_to_all_pays_for_each_peer(void **state)
{
    static const struct {
        int rank_count;
        double latency_s;
    } CASES[] = {{2, 7.2e-6}, {8, 10.8e-6}, {64, 6.6e-6 + 56 * 2.7e-6}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct group_shape group = group_of(load(*state, "dgx-h100-x16"), CASES[i].rank_count, 1);
        struct collective_cost cost =
            collective_price(shipped(*state), &group, COLLECTIVE_ALL_TO_ALL, 8, 1);
        assert_true(fabs(cost.latency_s / CASES[i].latency_s - 1) < 1e-9);
    }
}

static void a_group_of_one_and_an_empty_payload_cost_nothing(void **state)
{
    assert_true(price(*state, "dgx-h100", 1, 1, COLLECTIVE_ALL_REDUCE, 1e9).s == 0);
    assert_true(price(*state, "dgx-h100", 8, 1, COLLECTIVE_ALL_GATHER, 0).s == 0);
    assert_true(price(*state, "dgx-h100", 8, 1, COLLECTIVE_SLICE, 1e9).s == 0);
}

static const enum collective COLLECTIVES[] = {COLLECTIVE_ALL_GATHER,     COLLECTIVE_ALL_REDUCE,
                                              COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_TO_ALL,
                                              COLLECTIVE_SEND_RECV,      COLLECTIVE_BROADCAST};
enum { COLLECTIVES_COUNT = sizeof COLLECTIVES / sizeof *COLLECTIVES };

static void every_price_grows_with_bytes_and_is_the_sum_of_its_parts(void **state)
{
    struct arena *arena = *state;
    const struct fabrics *fabrics = shipped(arena);
    int count = 0;
    const char **names = file_list_data(arena, "topologies", &count);
    for (int i = 0; i < count; i++) {
        struct cluster *cluster = load(arena, names[i]);
        struct group_shape group = group_of(cluster, cluster->rank_count, 1);
        for (int c = 0; c < COLLECTIVES_COUNT; c++) {
            double before_s = 0;
            for (double bytes = 8; bytes < 1e11; bytes *= 3) {
                struct collective_cost cost =
                    collective_price(fabrics, &group, COLLECTIVES[c], bytes, 1);
                assert_true(cost.s > before_s || group.rank_count == 1);
                assert_true(cost.s == cost.latency_s + cost.bandwidth_s);
                before_s = cost.s;
            }
        }
    }
}

static void every_price_grows_with_ranks(void **state)
{
    struct arena *arena = *state;
    const struct fabrics *fabrics = shipped(arena);
    struct cluster *cluster = load(arena, "dgx-a100-80g-x64");
    for (int c = 0; c < COLLECTIVES_COUNT; c++) {
        for (double bytes = 8; bytes < 1e10; bytes *= 10) {
            double before_s = 0;
            for (int nodes = 2; nodes <= 64; nodes *= 2) {
                struct group_shape group = group_of(cluster, 8 * nodes, 1);
                double s = collective_price(fabrics, &group, COLLECTIVES[c], bytes, 1).s;
                assert_true(s >= before_s);
                before_s = s;
            }
        }
    }
}

// Large messages: latencies differ by what is started once and what twice.
static void an_all_reduce_costs_a_reduce_scatter_and_an_all_gather(void **state)
{
    static const char *const CLUSTERS[] = {"dgx-a100-80g", "dgx-a100-80g-x16", "p4d-efa"};
    for (int i = 0; i < 3; i++) {
        int count = load(*state, CLUSTERS[i])->rank_count;
        double reduce_s = price(*state, CLUSTERS[i], count, 1, COLLECTIVE_ALL_REDUCE, 1e10).s;
        double scatter_s = price(*state, CLUSTERS[i], count, 1, COLLECTIVE_REDUCE_SCATTER, 1e10).s;
        double gather_s = price(*state, CLUSTERS[i], count, 1, COLLECTIVE_ALL_GATHER, 1e10).s;
        assert_true(scatter_s == gather_s);
        assert_true(fabs(reduce_s / (scatter_s + gather_s) - 1) < 0.01);
    }
}

// k ranks a node drive k rails: the whole node's NICs or one of them.
static void a_ring_gains_a_rail_with_every_rank_in_a_node(void **state)
{
    struct arena *arena = *state;
    double one_s = price(arena, "dgx-a100-80g-x16", 16, 8, COLLECTIVE_ALL_GATHER, 1e10).s;
    double all_s = price(arena, "dgx-a100-80g-x16", 128, 1, COLLECTIVE_ALL_GATHER, 1e10).s;
    assert_true(all_s < one_s / 6 && all_s > one_s / 9);
    // 8 NICs of 25 GB/s at 0.83: 166 GB/s of bus bandwidth, below the 229 of the node.
    assert_true(fabs(1e10 * 127 / 128 / all_s / 166e9 - 1) < 0.05);
}

static void uneven_nodes_take_the_rails_of_the_poorest(void **state)
{
    const struct fabrics *fabrics = shipped(*state);
    struct group_shape even = group_of(load(*state, "dgx-a100-80g-x16"), 8, 16);
    even.rank_count = 12;
    even.node_count = 2;
    even.ranks_per_node = even.ranks_per_node_least = 6;
    struct group_shape uneven = even;
    uneven.ranks_per_node = 8;
    uneven.ranks_per_node_least = 4;
    double even_s = collective_price(fabrics, &even, COLLECTIVE_ALL_GATHER, 1e10, 1).s;
    double uneven_s = collective_price(fabrics, &uneven, COLLECTIVE_ALL_GATHER, 1e10, 1).s;
    assert_true(fabs(uneven_s / even_s - 6.0 / 4) < 0.02);
}

static void small_messages_over_many_nodes_take_a_tree(void **state)
{
    struct collective_cost small =
        price(*state, "dgx-a100-80g-x64", 512, 1, COLLECTIVE_ALL_REDUCE, 64);
    struct collective_cost large =
        price(*state, "dgx-a100-80g-x64", 512, 1, COLLECTIVE_ALL_REDUCE, 3e10);
    assert_int_equal(small.algorithm, ALGORITHM_TREE);
    assert_int_equal(large.algorithm, ALGORITHM_RING);
    assert_true(small.s > 20e-6 && small.s < 200e-6);
}

// Costs of a middle-sized gather are the steps; in two levels there are fewer of them.
static void a_gather_over_many_nodes_goes_in_two_levels(void **state)
{
    struct collective_cost cost =
        price(*state, "dgx-a100-80g-x64", 512, 1, COLLECTIVE_ALL_GATHER, 1e6);
    assert_int_equal(cost.algorithm, ALGORITHM_HIERARCHICAL);
}

static void a_small_all_reduce_in_a_node_costs_the_launch(void **state)
{
    double s = price(*state, "dgx-a100-80g", 8, 1, COLLECTIVE_ALL_REDUCE, 64).s;
    assert_true(s >= 10e-6 && s <= 20e-6);
}

static void the_stack_scales_the_network_and_not_the_node(void **state)
{
    const struct fabrics *fabrics = shipped(*state);
    struct group_shape node = group_of(load(*state, "dgx-a100-80g-x16"), 8, 1);
    struct group_shape wide = group_of(load(*state, "dgx-a100-80g-x16"), 16, 8);
    enum collective collective = COLLECTIVE_ALL_REDUCE;
    double whole_s = collective_price(fabrics, &node, collective, 1e9, 1).s;
    assert_true(collective_price(fabrics, &node, collective, 1e9, 0.5).s == whole_s);
    whole_s = collective_price(fabrics, &wide, collective, 1e9, 1).s;
    double half_s = collective_price(fabrics, &wide, collective, 1e9, 0.5).s;
    assert_true(half_s > 1.9 * whole_s && half_s < 2.1 * whole_s);
}

static void a_faster_link_is_never_slower(void **state)
{
    const struct fabrics *fabrics = shipped(*state);
    struct group_shape group = group_of(load(*state, "dgx-a100-80g-x16"), 128, 1);
    for (int c = 0; c < COLLECTIVES_COUNT; c++) {
        struct group_shape faster = group;
        faster.network_bytes_per_s_per_rank *= 2;
        double slow_s = collective_price(fabrics, &group, COLLECTIVES[c], 1e9, 1).s;
        assert_true(collective_price(fabrics, &faster, COLLECTIVES[c], 1e9, 1).s <= slow_s);
    }
}

static void buckets_cost_their_latency(void **state)
{
    double whole_s = price(*state, "dgx-a100-80g-x16", 128, 1, COLLECTIVE_ALL_REDUCE, 1e9).s;
    double pieces_s = price(*state, "dgx-a100-80g-x16", 128, 1, COLLECTIVE_ALL_REDUCE, 1e6).s;
    assert_true(1000 * pieces_s > 2 * whole_s);
}

static void every_shipped_cluster_has_its_fabrics(void **state)
{
    struct arena *arena = *state;
    int count = 0;
    const char **names = file_list_data(arena, "topologies", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct cluster *cluster = load(arena, names[i]);
        if (cluster->node_group_count == 1)
            cluster = load(arena, arena_print(arena, "%s-x2", names[i]));
        assert_true(fabrics_cover(shipped(arena), cluster, &err));
        assert_string_equal(err.text, "");
    }
}

static void an_unknown_fabric_is_an_error_that_lists_the_known(void **state)
{
    static const char MESSAGE[] =
        "cluster dgx-h100: the network is of unknown kind \"carrier pigeon\", there are: "
        "nvswitch, nvlink, pcie, xgmi, hccs, ici, memory, shared-memory, infiniband, roce, efa, "
        "slingshot, omni-path, ethernet";
    struct err err = {0};
    struct cluster *cluster = load(*state, "dgx-h100-x2");
    cluster->network.kind = "carrier pigeon";
    assert_false(fabrics_cover(shipped(*state), cluster, &err));
    assert_string_equal(err.text, MESSAGE);
    assert_int_equal(err.kind, ERR_INPUT);
}

static void check_refusal(struct arena *arena, const char *rows, const char *expected)
{
    struct err err = {0};
    struct json_document document;
    const char *text = arena_print(arena, "{\"fabrics\": [%s]}", rows);
    assert_true(json_parse(arena, "file", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    assert_null(fabrics_read(arena, &root, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(strchr(err.text, '$'), expected);  // the place is the reader's affair
}

// A row with these protocols and group efficiencies, each constant with its provenance.
static char *row_of(struct arena *arena, const char *protocols, const char *groups)
{
    static const char *const KEYS[] = {"link_bytes_per_s_least",  "latency_s",
                                       "efficiency_ratio",        "tree_bandwidth_ratio",
                                       "reduce_efficiency_ratio", "reduce_latency_s",
                                       "in_network_ranks_least",  "all_to_all_efficiency_ratio",
                                       "send_efficiency_ratio"};
    char *numbers = "", *sources = "";
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        numbers = arena_print(arena, "%s\"%s\": 1, ", numbers, KEYS[i]);
        sources = arena_print(
            arena, "%s{\"key\": \"%s\", \"kind\": \"estimated\", \"source\": \"test\"}, ", sources,
            KEYS[i]);
    }
    return arena_print(arena,
                       "{\"kind\": \"wire\", %s\"protocols\": {%s}, \"group_efficiency\": [%s], "
                       "\"provenance\": [%s{\"key\": \"protocols\", \"kind\": \"estimated\", "
                       "\"source\": \"test\"}]}",
                       numbers, protocols, groups, sources);
}

static void a_wrong_table_of_fabrics_gets_its_message(void **state)
{
    struct arena *arena = *state;
    static const char SIMPLE[] = "\"simple\": {\"base_latency_s\": 0, \"ring_step_latency_s\": 0, "
                                 "\"tree_step_latency_s\": 0, \"bandwidth_ratio\": 1}";
    const char *good = row_of(arena, SIMPLE, "");
    check_refusal(arena, row_of(arena, "", ""),
                  "$.fabrics[0].protocols: missing \"simple.base_latency_s\", "
                  "\"simple.ring_step_latency_s\", \"simple.tree_step_latency_s\", "
                  "\"simple.bandwidth_ratio\"");
    check_refusal(arena, arena_print(arena, "%s, %s", good, good),
                  "$.fabrics[1]: a second row of kind \"wire\" from the same speed on");
    static const char POINT[] = "{\"rank_count\": 4, \"ratio\": 0.5}";
    check_refusal(arena, row_of(arena, SIMPLE, arena_print(arena, "%s, %s", POINT, POINT)),
                  "$.fabrics[0].group_efficiency[1]: expected more ranks than in the "
                  "entry before");
    check_refusal(arena, row_of(arena, SIMPLE, POINT),
                  "$.fabrics[0].group_efficiency: expected an entry for "
                  "\"group_efficiency\" in provenance, found none");
}

// Exact: the sheets' 100 GB/s a link, the row's shares of it and its 2 us and 1 us a hop.
static void a_torus_runs_a_ring_along_each_dimension(void **state)
{
    static const struct {
        const char *cluster;
        enum collective collective;
        int count, stride;
        double bandwidth_s, latency_s;  // latency 0: not looked at
    } CASES[] = {
        // All of a pod of 16 x 16 over four links, 2 x 15 hops each way.
        {"tpu-v6e-256", COLLECTIVE_ALL_REDUCE, 256, 1, 2 * 255.0 / 256 / 360, 62e-6},
        {"tpu-v6e-256", COLLECTIVE_ALL_GATHER, 16, 1, 15.0 / 16 / 180, 17e-6},
        // A row of 8 of 16 closes no ring.
        {"tpu-v6e-256", COLLECTIVE_ALL_GATHER, 8, 1, 7.0 / 8 / 90, 9e-6},
        {"tpu-v5p-64", COLLECTIVE_REDUCE_SCATTER, 64, 1, 63.0 / 64 / 540, 11e-6},
        {"tpu-v5p-64", COLLECTIVE_ALL_GATHER, 16, 4, 15.0 / 16 / 360, 8e-6},
        // Half of what each chip sends passes the 32 links across the middle: 3.2 TB/s.
        {"tpu-v6e-256", COLLECTIVE_ALL_TO_ALL, 256, 1, 256 / 4.0 / 3200 / 0.8, 0},
        {"tpu-v6e-256", COLLECTIVE_SEND_RECV, 2, 16, 1.0 / 90, 3e-6},
        // Two columns on, with as many others' messages on each link.
        {"tpu-v6e-256", COLLECTIVE_SEND_RECV, 2, 2, 1.0 / 45, 3e-6},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct collective_cost cost = price(*state, CASES[i].cluster, CASES[i].count,
                                            CASES[i].stride, CASES[i].collective, 1e9);
        assert_true(fabs(cost.bandwidth_s - CASES[i].bandwidth_s) < 1e-9 * cost.bandwidth_s);
        if (CASES[i].latency_s > 0)
            assert_true(fabs(cost.latency_s - CASES[i].latency_s) < 1e-9 * cost.latency_s);
    }
}

// Over two cubes: between them on each chip's part, then along the rings of each.
static void two_toruses_exchange_over_the_network(void **state)
{
    struct collective_cost cost =
        price(*state, "tpu-v5p-64-x2", 128, 1, COLLECTIVE_ALL_GATHER, 1e9);
    double network_s = 0.5 / (64 * 6.25 * 0.55), inside_s = 63.0 / 64 / 540;
    assert_int_equal(cost.algorithm, ALGORITHM_HIERARCHICAL);
    assert_true(fabs(cost.bandwidth_s - network_s - inside_s) < 1e-9 * cost.bandwidth_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvls_begins_at_five_ranks_on_hopper_and_six_on_blackwell),
        cmocka_unit_test(an_all_to_all_over_nodes_takes_its_slower_part),
        cmocka_unit_test(an_all_to_all_has_its_rank_s_share_of_the_nics),
        cmocka_unit_test(a_dispatch_sends_a_token_once_to_a_place),
        cmocka_unit_test(an_all_to_all_pays_for_each_peer),
        cmocka_unit_test(a_group_of_one_and_an_empty_payload_cost_nothing),
        cmocka_unit_test(every_price_grows_with_bytes_and_is_the_sum_of_its_parts),
        cmocka_unit_test(every_price_grows_with_ranks),
        cmocka_unit_test(an_all_reduce_costs_a_reduce_scatter_and_an_all_gather),
        cmocka_unit_test(a_ring_gains_a_rail_with_every_rank_in_a_node),
        cmocka_unit_test(uneven_nodes_take_the_rails_of_the_poorest),
        cmocka_unit_test(small_messages_over_many_nodes_take_a_tree),
        cmocka_unit_test(a_gather_over_many_nodes_goes_in_two_levels),
        cmocka_unit_test(a_small_all_reduce_in_a_node_costs_the_launch),
        cmocka_unit_test(the_stack_scales_the_network_and_not_the_node),
        cmocka_unit_test(a_faster_link_is_never_slower),
        cmocka_unit_test(buckets_cost_their_latency),
        cmocka_unit_test(every_shipped_cluster_has_its_fabrics),
        cmocka_unit_test(a_wrong_table_of_fabrics_gets_its_message),
        cmocka_unit_test(an_unknown_fabric_is_an_error_that_lists_the_known),
        cmocka_unit_test(a_torus_runs_a_ring_along_each_dimension),
        cmocka_unit_test(two_toruses_exchange_over_the_network),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
