#include "core/file.h"
#include "tests/support/test.h"
#include "topologies/cluster.h"

static struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    assert_non_null(cluster);
    return cluster;
}

static char *text_of(struct arena *arena, const struct cluster *cluster)
{
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, cluster);
    return writer.text;
}

static struct cluster *copy_of(struct arena *arena, const struct cluster *cluster)
{
    struct err err = {0};
    struct json_document document;
    const char *text = text_of(arena, cluster);
    assert_true(json_parse(arena, "copy", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct cluster *copy = cluster_read(arena, &root, &err);
    assert_string_equal(err.text, "");
    return copy;
}

static void check_error(struct arena *arena, const char *name, enum err_kind kind,
                        const char *message)
{
    struct err err = {0};
    assert_null(cluster_load(arena, name, &err));
    assert_string_equal(err.text, message);
    assert_int_equal(err.kind, kind);
}

// What ends the message about any cluster file.
static const char TEMPLATE[] = "; start from: meshwright topology dgx-h100 --json";

// tests/data/cluster_NAME.json and what follows its path in the message.
static const struct {
    const char *name, *message;
} BAD_FILES[] = {
    {"between_alone", "9:14: $.between: joins groups of nodes, of which there is one"},
    {"device_hearsay",
     "26:44: $.nodes[0].device.provenance[0].kind: expected measured, published, fitted, "
     "datasheet, estimated or assumed, found \"hearsay\""},
    {"device_kind",
     "6:15: $.nodes[0].device.kind: expected gpu, npu, cpu, tpu or hpu, found \"fpga\""},
    {"device_no_peak",
     "15:23: $.nodes[0].device.efficiency.gemm_ratio: found a ratio for bf16, which has "
     "no peak"},
    {"device_no_provenance",
     "8:23: $.nodes[0].device.memory_bytes: expected an entry for \"memory_bytes\" in "
     "provenance, found none"},
    {"device_no_ratio",
     "15:23: $.nodes[0].device.efficiency.gemm_ratio: expected a ratio for bf16, which "
     "has a peak"},
    {"device_number", "4:39: $.nodes[0].device: expected the name of a device or an object"},
    {"device_ratio_above_one",
     "20:25: $.nodes[0].device.efficiency.memory_ratio: must be between 0.0001 and 1, "
     "found 1.8"},
    {"device_unknown_precision",
     "7:60: $.nodes[0].device.peak_flop_per_s.bf17: unknown key, did you mean \"bf16\"?"},
    {"device_slow_memory", "9:39: $.nodes[0].device.memory_bandwidth_bytes_per_s: must be between "
                           "10000000 and 1000000000000000, found 2.039"},
    {"device_slow_exponentials", "10:28: $.nodes[0].device.exponential_per_s: must be between "
                                 "10000000 and 1e+18, found 2.5"},
    {"device_wrong_provenance",
     "30:17: $.nodes[0].device.provenance[4].key: this device has no constant called "
     "\"cache\""},
    {"duplicate_key", "4:29: $.nodes[0].gpus: duplicate key"},
    {"half_gpu", "4:26: $.nodes[0].gpus: expected a whole number, found 7.5"},
    {"idle_node", "12:17: $.rank_count: must be between 9 and 16 to end in the last node, found 8"},
    {"memory_past_2_53",
     "6:31: $.nodes[0].host.memory_bytes: must be between 1 and 1000000000000000, found "
     "1e+300"},
    {"missing_key", "10:14: $.network: missing \"kind\""},
    {"negative_bandwidth", "5:61: $.nodes[0].intra.bandwidth_bytes_per_s: must be between 1 and "
                           "1000000000000000, found -300000000000"},
    {"no_gpus", "4:26: $.nodes[0].gpus: must be between 1 and 100000, found 0"},
    {"no_nics", "8:14: $.nodes[0].nics: 2 nodes need a network, but these nodes have no NIC"},
    {"no_nodes", "3:12: $.nodes: a cluster needs a GPU"},
    {"nodes_object", "3:12: $.nodes: expected an array"},
    {"not_json", "1:1: not valid JSON from here on"},
    {"nul_byte", "2:13: a NUL byte"},
    {"past_2_53", "7:52: $.nodes[0].host.nvme_bytes: must be between 0 and 1000000000000000, found "
                  "9007199254740992"},
    {"price_without_currency", "12:12: $.price: missing \"currency\""},
    {"too_deep", "1:73: nested too deep"},
    {"too_many_gpus", "4:5: $.nodes[0]: more than 1073741824 GPUs"},
    {"truncated", "5:111: not valid JSON from here on"},
    {"type_error", "4:26: $.nodes[0].gpus: expected a number, found a string"},
    {"undersubscribed",
     "10:82: $.network.oversubscription_ratio: must be between 1 and 1000, found 0.5"},
    {"uneven_hosts",
     "4:46: $.nodes[0].gpus_per_host: expected a divisor of the node's 8 GPUs, found 3"},
    {"unknown_key", "4:18: $.nodes[0].gpu: unknown key, did you mean \"gpus\"?"},
    {"torus_flat", "8:18: $.nodes[0].intra.torus: expected an array of 1 to 3 sizes"},
    {"torus_open",
     "7:70: $.nodes[0].intra.torus_open: expected the sizes of a \"torus\" beside it"},
    {"torus_size",
     "8:18: $.nodes[0].intra.torus: expected sizes whose product is the node's 8 GPUs, found 16"},
    {"tiers_order",
     "11:68: $.network.tiers[1].nodes: expected a multiple of the 4 nodes of the tier below, "
     "found 6"},
    {"tiers_empty", "11:14: $.network.tiers: expected 1 to 4 tiers, found 0"},
    {"tiers_no_flows",
     "9:14: $.network: a tier hashes flows over its \"uplinks\": missing \"flows_per_nic\""},
    {"tiers_no_links",
     "11:76: $.network.flows_per_nic: no tier has \"uplinks\" that flows are hashed over"},
    {"tiers_unlike", "16:14: $.network.tiers: join nodes of as many GPUs each, found 8 and 4"},
    {"tiers_between", "14:14: $.between: expected one network whose switches have \"tiers\""},
    {"loss_alone",
     "9:14: $.network: expected both of \"loss_ratio\" and \"loss_stall_s\", found one"},
    {"slow_links", "5:61: $.nodes[0].intra.bandwidth_bytes_per_s: must be between 100000 and "
                   "1000000000000000, found 30"},
    {"slow_nics", "8:52: $.nodes[0].nics.bandwidth_bytes_per_s: must be between 100000 and "
                  "1000000000000000, found 0.001"},
    {"slow_pcie", "6:110: $.nodes[0].host.pcie_bytes_per_s: must be between 100000 and "
                  "1000000000000000, found 1"},
    {"slow_storage", "12:42: $.failures.checkpoint_bytes_per_s: must be 0 (unknown) or at least 1, "
                     "found 1e-300"},
};

static void a_wrong_file_is_answered_with_its_place(void **state)
{
    for (size_t i = 0; i < sizeof BAD_FILES / sizeof *BAD_FILES; i++) {
        char *path = arena_print(*state, "tests/data/cluster_%s.json", BAD_FILES[i].name);
        check_error(*state, path, ERR_INPUT,
                    arena_print(*state, "%s:%s%s", path, BAD_FILES[i].message, TEMPLATE));
    }
}

static void an_unknown_device_is_answered_with_the_nearest(void **state)
{
    static const char MESSAGE[] =
        "tests/data/cluster_unknown_device.json:4:39: $.nodes[0].device: no device is called "
        "\"a100-sxm4-80gb\", did you mean \"a100-sxm4-80g\"? There are: a100-pcie-80g, ";
    struct err err = {0};
    assert_null(cluster_load(*state, "tests/data/cluster_unknown_device.json", &err));
    assert_memory_equal(err.text, MESSAGE, strlen(MESSAGE));
    assert_int_equal(err.kind, ERR_INPUT);
}

static void every_shipped_cluster_reads_and_has_the_name_of_its_file(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies", &count);
    assert_true(count >= 18);
    for (int i = 0; i < count; i++) {
        assert_string_equal(load(*state, names[i])->name, names[i]);
    }
}

static void every_shipped_cluster_is_written_as_it_was_read(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies", &count);
    for (int i = 0; i < count; i++) {
        struct cluster *cluster = load(*state, names[i]);
        struct cluster *copy = copy_of(*state, cluster);
        assert_string_equal(text_of(*state, copy), text_of(*state, cluster));
        assert_int_equal(copy->rank_count, cluster->rank_count);
        assert_true(device_equals(copy->nodes[0].device, cluster->nodes[0].device));
    }
}

static void a_minimal_file_takes_the_defaults(void **state)
{
    struct cluster *cluster = load(*state, "tests/data/cluster_good.json");
    assert_string_equal(cluster->name, "two-nodes");
    assert_int_equal(cluster->node_count, 2);
    assert_int_equal(cluster->rank_count, 16);
    assert_int_equal(cluster->nodes[0].gpus_per_host, 8);
    assert_string_equal(cluster->nodes[0].device->name, "a100-sxm4-80g");
    assert_int_equal(cluster->nodes[0].host.memory_bytes, 2000000000000);
    assert_true(cluster->nodes[0].nics.bandwidth_bytes_per_s == 25e9);
    assert_true(cluster->failures.gpu_mtbf_h == CLUSTER_GPU_MTBF_H);
    assert_true(cluster->price.per_gpu_hour == 0);
    assert_true(cluster_is_uniform(cluster));
}

static void a_number_after_the_name_is_the_number_of_nodes(void **state)
{
    struct cluster *cluster = load(*state, "dgx-a100-80g-x16");
    assert_string_equal(cluster->name, "dgx-a100-80g");
    assert_int_equal(cluster->node_count, 16);
    assert_int_equal(cluster->rank_count, 128);
    assert_int_equal(load(*state, "dgx-a100-80g")->node_count, 1);
    assert_int_equal(load(*state, "gb200-nvl72-x2")->rank_count, 144);
    assert_int_equal(load(*state, "selene")->node_count, 560);
    assert_int_equal(load(*state, "dgx-h100-x1000000")->rank_count, 8000000);
}

static void a_wrong_number_after_the_name_is_a_usage_error(void **state)
{
    check_error(*state, "dgx-h100-x0", ERR_USAGE,
                "dgx-h100-x0: must be between 1 and 1000000, found 0");
    check_error(*state, "dgx-h100-x1000001", ERR_USAGE,
                "dgx-h100-x1000001: must be between 1 and 1000000, found 1000001");
}

static void an_unknown_name_is_answered_with_the_nearest(void **state)
{
    static const char *const NAMES[] = {"dgx-h10", "dgx-h10-x4"};
    static const char MESSAGE[] = "no cluster is called \"dgx-h10\", did you mean \"dgx-h100\"?";
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        assert_null(cluster_load(*state, NAMES[i], &err));
        assert_memory_equal(err.text, MESSAGE, strlen(MESSAGE));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

static void names_that_only_look_like_a_count_are_whole_names(void **state)
{
    static const char *const NAMES[] = {"x4", "-x4", "dgx-h100-x", "dgx-h100x4"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct err err = {0};
        char *start = arena_print(*state, "no cluster is called \"%s\"", NAMES[i]);
        assert_null(cluster_load(*state, NAMES[i], &err));
        assert_memory_equal(err.text, start, strlen(start));
    }
}

static void the_rental_market_has_its_prices(void **state)
{
    static const struct {
        const char *name;
        double per_gpu_hour;
    } RENTALS[] = {
        {"hgx-a800", 5.99}, {"hgx-h800", 5.99}, {"ascend-910b", 5.99}, {"rtx4090-pcie8", 1.99}};
    for (size_t i = 0; i < sizeof RENTALS / sizeof *RENTALS; i++) {
        struct cluster *cluster = load(*state, RENTALS[i].name);
        assert_true(cluster->price.per_gpu_hour == RENTALS[i].per_gpu_hour);
        assert_string_equal(cluster->price.currency, "CNY");
    }
}

static void mixed_nodes_number_their_ranks_in_order(void **state)
{
    static const int NODE_OF[][2] = {{0, 0},  {7, 0},  {8, 1},  {15, 1}, {16, 2},
                                     {21, 2}, {22, 3}, {33, 4}, {34, 5}, {37, 5}};
    struct cluster *cluster = load(*state, "tests/data/cluster_mixed.json");
    assert_int_equal(cluster->node_count, 6);
    assert_int_equal(cluster->rank_count, 38);
    for (size_t i = 0; i < sizeof NODE_OF / sizeof *NODE_OF; i++) {
        assert_int_equal(cluster_node_of(cluster, NODE_OF[i][0]), NODE_OF[i][1]);
    }
    assert_ptr_equal(cluster_group_of(cluster, 15), &cluster->nodes[0]);
    assert_ptr_equal(cluster_group_of(cluster, 16), &cluster->nodes[1]);
    assert_ptr_equal(cluster_group_of(cluster, 37), &cluster->nodes[2]);
    assert_false(cluster_is_uniform(cluster));
    assert_true(cluster->failures.gpu_mtbf_h == 20000 && cluster->failures.restart_s == 300);
}

static void the_nodes_of_a_mixed_cluster_stand_in_the_file(void **state)
{
    struct err err = {0};
    struct cluster *cluster = load(*state, "tests/data/cluster_mixed.json");
    assert_false(cluster_set_nodes(cluster, 4, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "mixed mixes 3 kinds of nodes, their numbers stand in the file");
}

static void what_joins_groups_of_nodes_is_read_and_written(void **state)
{
    struct err err = {0};
    struct cluster *cluster = load(*state, "tests/data/cluster_between.json");
    struct cluster *copy = copy_of(*state, cluster);
    assert_string_equal(copy->between.kind, "ethernet");
    assert_true(copy->between.bandwidth_bytes_per_s == 40e9 && copy->between.latency_s == 1e-3);
    assert_true(copy->between.network.latency_s == 1e-3);
    // Alike as they are, the nodes are not all as near.
    assert_true(cluster_has_one_device(cluster) && !cluster_is_uniform(cluster));
    // Of one group it is gone.
    assert_true(cluster_take_gpus(copy, 16, &err));
    copy = copy_of(*state, copy);
    assert_null(copy->between.kind);
    assert_true(cluster_is_uniform(copy));
}

static void switches_and_losses_are_read_and_written(void **state)
{
    struct cluster *copy = copy_of(*state, load(*state, "tests/data/cluster_tiers.json"));
    const struct network *network = &copy->network;
    assert_true(network->tier_count == 2 && network->flows_per_nic == 4);
    assert_true(network->tiers[0].nodes == 2 && network->tiers[0].uplinks == 16);
    assert_true(network->tiers[0].oversubscription_ratio == 1 && !network->tiers[0].dragonfly);
    assert_true(network->tiers[1].nodes == 4 && network->tiers[1].uplinks == 0);
    assert_true(network->tiers[1].oversubscription_ratio == 7 && network->tiers[1].dragonfly);
    assert_true(network->loss_ratio == 1e-7 && network->loss_stall_s == 0.5);
}

static void devices_of_one_kind_are_known_by_their_numbers(void **state)
{
    struct cluster *cluster = load(*state, "tests/data/cluster_mixed.json");
    struct node_group groups[] = {cluster->nodes[0], cluster->nodes[1], cluster->nodes[0]};
    groups[2].device = device_copy(*state, groups[0].device);
    cluster->nodes = groups;
    assert_false(cluster_has_one_device(cluster));
    assert_int_equal(cluster_device_kind(cluster, 1), 1);
    assert_int_equal(cluster_device_kind(cluster, 2), 0);
}

static void nodes_without_a_nic_stay_alone(void **state)
{
    struct err err = {0};
    struct cluster *cluster = load(*state, "dgx-h100");
    cluster->nodes[0].nics.count = 0;
    assert_true(cluster_set_nodes(cluster, 1, &err));
    assert_false(cluster_set_nodes(cluster, 2, &err));
    assert_string_equal(err.text, "dgx-h100 cannot have 2 nodes: its nodes have no NIC");
}

static void taking_gpus_leaves_whole_nodes_out(void **state)
{
    struct err err = {0};
    struct cluster *cluster = load(*state, "tests/data/cluster_mixed.json");
    assert_true(cluster_take_gpus(cluster, 24, &err));
    assert_int_equal(cluster->rank_count, 24);
    assert_int_equal(cluster->node_count, 4);
    assert_int_equal(cluster->node_group_count, 2);
    assert_int_equal(cluster_node_of(cluster, 23), 3);
    assert_true(cluster_take_gpus(cluster, 8, &err));
    assert_int_equal(cluster->node_count, 1);
    assert_true(cluster_is_uniform(cluster));
    assert_false(cluster_take_gpus(cluster, 9, &err));
    assert_string_equal(err.text, "gpus of mixed: expected 1 to 8, found 9 (more with --nodes 2)");
    assert_int_equal(err.kind, ERR_USAGE);
}

static void a_part_of_a_node_survives_the_round_trip(void **state)
{
    struct err err = {0};
    struct cluster *cluster = load(*state, "dgx-a100-80g-x4");
    assert_true(cluster_take_gpus(cluster, 13, &err));
    struct cluster *copy = copy_of(*state, cluster);
    assert_int_equal(copy->rank_count, 13);
    assert_int_equal(copy->node_count, 2);
    assert_string_equal(text_of(*state, copy), text_of(*state, cluster));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_file_is_answered_with_its_place),
        cmocka_unit_test(an_unknown_device_is_answered_with_the_nearest),
        cmocka_unit_test(every_shipped_cluster_reads_and_has_the_name_of_its_file),
        cmocka_unit_test(every_shipped_cluster_is_written_as_it_was_read),
        cmocka_unit_test(a_minimal_file_takes_the_defaults),
        cmocka_unit_test(a_number_after_the_name_is_the_number_of_nodes),
        cmocka_unit_test(a_wrong_number_after_the_name_is_a_usage_error),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_nearest),
        cmocka_unit_test(names_that_only_look_like_a_count_are_whole_names),
        cmocka_unit_test(the_rental_market_has_its_prices),
        cmocka_unit_test(mixed_nodes_number_their_ranks_in_order),
        cmocka_unit_test(the_nodes_of_a_mixed_cluster_stand_in_the_file),
        cmocka_unit_test(what_joins_groups_of_nodes_is_read_and_written),
        cmocka_unit_test(switches_and_losses_are_read_and_written),
        cmocka_unit_test(devices_of_one_kind_are_known_by_their_numbers),
        cmocka_unit_test(nodes_without_a_nic_stay_alone),
        cmocka_unit_test(taking_gpus_leaves_whole_nodes_out),
        cmocka_unit_test(a_part_of_a_node_survives_the_round_trip),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
