#include "core/file.h"
#include "tests/support/test.h"
#include "topologies/cluster.h"

#include <stdlib.h>

// Cluster files that say what a vendor's sheet says, and files that say less than that.

#define NVSWITCH "\"intra\": {\"kind\": \"nvswitch\", \"bandwidth_bytes_per_s\": 450e9}"
#define NICS "\"nics\": {\"count\": 8, \"bandwidth_bytes_per_s\": 50e9}"
#define INFINIBAND "\"network\": {\"kind\": \"infiniband\"}"
#define NODE(device) "{\"gpus\": 8, \"device\": " device ", " NVSWITCH ", " NICS "}"
#define SHEET(device) "{\"nodes\": [" NODE(device) "], " INFINIBAND "}"
#define OWN_DEVICE                                                                    \
    "{\"name\": \"own\", \"peak_flop_per_s\": {\"bf16\": 980e12, \"fp8\": 1960e12}, " \
    "\"memory_bytes\": 96e9, \"memory_bandwidth_bytes_per_s\": 3.9e12}"

static struct cluster *parse(struct arena *arena, const char *text, struct err *err)
{
    // What is read points into its document.
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, "mine.json", text, strlen(text), document, err)) return NULL;
    struct json root = json_root(document);
    return cluster_read(arena, &root, err);
}

static struct cluster *parsed(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct cluster *cluster = parse(arena, text, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

static void check_refused(struct arena *arena, const char *text, const char *message)
{
    struct err err = {0};
    assert_null(parse(arena, text, &err));
    assert_string_equal(err.text, message);
    assert_int_equal(err.kind, ERR_INPUT);
}

static bool assumes(const struct cluster *cluster, const char *key)
{
    const struct provenance_list list = {cluster->provenance, cluster->provenance_count};
    const struct provenance *entry = provenance_find(&list, key);
    return entry && entry->kind == PROVENANCE_ASSUMED;
}

static char *text_of(struct arena *arena, const struct cluster *cluster)
{
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, cluster);
    return writer.text;
}

static void a_vendors_sheet_is_enough(void **state)
{
    struct cluster *cluster = parsed(*state, SHEET("\"h100-sxm5-80g\""));
    const struct node_group *group = &cluster->nodes[0];
    assert_string_equal(cluster->name, "mine");
    assert_int_equal(cluster->node_count, 1);
    assert_int_equal(cluster->rank_count, 8);
    assert_true(group->intra.latency_s == 2e-6);
    assert_true(group->intra.in_network_reduction);
    assert_int_equal(group->host.memory_bytes, 2000000000000);
    assert_int_equal(group->host.cores, 112);
    assert_int_equal(group->host.nvme_bytes, 0);
    assert_true(cluster->network.latency_s == 5e-6);
    assert_true(cluster->network.oversubscription_ratio == 1);
    assert_false(cluster->network.in_network_reduction);
    assert_true(assumes(cluster, "nodes[0].intra.latency_s"));
    assert_true(cluster_assumes_links(cluster));
    assert_false(assumes(cluster, "nodes[0].gpus"));
}

static void all_that_was_taken_is_noted_in_one_line(void **state)
{
    struct cluster *cluster = parsed(*state, SHEET("\"h100-sxm5-80g\""));
    assert_string_equal(
        cluster->note,
        "mine.json: not given, taken: name mine (of the file); nodes[0].count 1 (one node); "
        "nodes[0].gpus_per_host 8 (one host a node); nodes[0].host.memory_bytes 2000e9, "
        "nodes[0].host.memory_bandwidth_bytes_per_s 600e9, nodes[0].host.cores 112, "
        "nodes[0].host.pcie_bytes_per_s 50e9 (as much a GPU as dgx-h100); "
        "nodes[0].host.nvme_bytes_per_s 0, nodes[0].host.nvme_bytes 0 (none); "
        "nodes[0].intra.latency_s 2e-06, nodes[0].intra.in_network_reduction true (of nvswitch in "
        "cost_models/fabrics.json); network.latency_s 5e-06 (of infiniband in "
        "cost_models/fabrics.json); network.oversubscription_ratio 1 (every NIC at its full "
        "speed); network.rail_optimized false, network.in_network_reduction false (a plain "
        "network)");
}

static void a_device_of_ones_own_is_filled_from_the_nearest(void **state)
{
    struct cluster *cluster = parsed(*state, SHEET(OWN_DEVICE));
    const struct device *own = cluster->nodes[0].device;
    struct err err = {0};
    const struct device *like = device_load(*state, "h100-sxm5-80g", &err);
    assert_non_null(like);
    assert_string_equal(own->name, "own");
    assert_true(own->peak_flop_per_s[PRECISION_BF16] == 980e12);
    assert_true(own->efficiency.gemm_ratio[PRECISION_BF16] ==
                like->efficiency.gemm_ratio[PRECISION_BF16]);
    assert_true(own->efficiency.gemm_ratio[PRECISION_FP32] == 0);
    assert_true(own->efficiency.memory_ratio == like->efficiency.memory_ratio);
    assert_true(own->launch_latency_s == like->launch_latency_s);
    assert_int_equal(own->multiprocessor_count, like->multiprocessor_count);
    assert_int_equal(device_provenance(own, "efficiency.gemm_ratio.bf16")->kind,
                     PROVENANCE_ASSUMED);
    assert_int_equal(device_provenance(own, "memory_bytes")->kind, PROVENANCE_DATASHEET);
    assert_non_null(strstr(cluster->note, "nodes[0].device.efficiency"));
    assert_non_null(strstr(cluster->note, "as h100-sxm5-80g, the nearest shipped device by peak"));
}

static void a_precision_that_no_like_device_has_takes_the_next_wider(void **state)
{
    struct cluster *cluster = parsed(
        *state, SHEET("{\"name\": \"own\", \"peak_flop_per_s\": {\"bf16\": 980e12, \"fp4\": "
                      "4e15}, \"memory_bytes\": 96e9, \"memory_bandwidth_bytes_per_s\": 3.9e12}"));
    const struct device *own = cluster->nodes[0].device;
    assert_true(own->efficiency.gemm_ratio[PRECISION_FP4] > 0);
    assert_non_null(strstr(cluster->note, "(as fp8 of h100-sxm5-80g)"));
}

// The template and a file that was filled in: both read again as they were, without a note.
static void what_is_written_reads_again_complete(void **state)
{
    static const char *const TEXTS[] = {SHEET("\"h100-sxm5-80g\""), SHEET(OWN_DEVICE),
                                        "{\"nodes\": [{\"gpus\": 1, \"device\": \"l40s-48g\"}]}"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        struct cluster *cluster = parsed(*state, TEXTS[i]);
        const char *text = text_of(*state, cluster);
        struct cluster *again = parsed(*state, text);
        assert_string_equal(text_of(*state, again), text);
        assert_null(again->note);
        assert_true(device_equals(again->nodes[0].device, cluster->nodes[0].device));
        assert_int_equal(cluster_assumes_links(again), cluster_assumes_links(cluster));
    }
}

// A file that was written complete, from which a line is deleted: its provenance still speaks of
// it.
static void a_line_may_be_deleted_from_the_template(void **state)
{
    static const char *const LINES[] = {"\"cache_bytes\": 52428800,",
                                        "\"launch_latency_s\": 4e-06,", "\"cores\": 112,",
                                        "\"memory_ratio\": 0.7951,"};
    const char *text = text_of(*state, parsed(*state, SHEET("\"h100-sxm5-80g\"")));
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        const char *at = strstr(text, LINES[i]);
        assert_non_null(at);
        const char *without =
            arena_print(*state, "%.*s%s", (int)(at - text), text, at + strlen(LINES[i]));
        struct cluster *cluster = parsed(*state, without);
        assert_non_null(cluster->note);
        assert_string_equal(text_of(*state, parsed(*state, text_of(*state, cluster))),
                            text_of(*state, cluster));
    }
}

static void one_gpu_alone_needs_nothing_that_joins_it(void **state)
{
    struct cluster *cluster =
        parsed(*state, "{\"nodes\": [{\"gpus\": 1, \"device\": \"h100-sxm5-80g\"}]}");
    assert_int_equal(cluster->rank_count, 1);
    assert_string_equal(cluster->nodes[0].intra.kind, "none");
    assert_string_equal(cluster->network.kind, "none");
}

static void all_missing_keys_are_one_line(void **state)
{
    check_refused(
        *state,
        "{\"nodes\": [{\"device\": {\"name\": \"own\"}, \"intra\": {}, \"nics\": {}},\n"
        " {\"count\": 2}], \"network\": {}}",
        "mine.json:1:12: $.nodes[0]: missing \"gpus\"; 1:23: $.nodes[0].device: missing "
        "\"peak_flop_per_s\", \"memory_bytes\", \"memory_bandwidth_bytes_per_s\"; 1:49: "
        "$.nodes[0].intra: missing \"kind\", \"bandwidth_bytes_per_s\"; 1:61: $.nodes[0].nics: "
        "missing \"count\", \"bandwidth_bytes_per_s\"; 2:2: $.nodes[1]: missing \"gpus\", "
        "\"device\", \"intra.kind\", \"intra.bandwidth_bytes_per_s\", \"nics.count\", "
        "\"nics.bandwidth_bytes_per_s\"; 2:28: $.network: missing \"kind\"");
    check_refused(*state, "{}",
                  "mine.json:1:1: $: missing \"nodes[0].gpus\", \"nodes[0].device\", "
                  "\"nodes[0].intra.kind\", \"nodes[0].intra.bandwidth_bytes_per_s\", "
                  "\"nodes[0].nics.count\", \"nodes[0].nics.bandwidth_bytes_per_s\", "
                  "\"network.kind\"");
}

static void all_that_is_wrong_is_told_together(void **state)
{
    check_refused(*state,
                  "{\"nodes\": [{\"gpu\": 8, \"device\": \"h100-sxm5-80g\", \"intra\": {\"kind\": "
                  "\"nvswitch\", \"bandwidth\": 1e9}}], \"netwrk\": 1, \"name\": 3}",
                  "mine.json:1:101: $.netwrk: unknown key, did you mean \"network\"?; 1:122: "
                  "$.name: expected a string, found a number; 1:13: $.nodes[0].gpu: unknown key, "
                  "did you mean \"gpus\"?; 1:80: $.nodes[0].intra.bandwidth: unknown key, did you "
                  "mean \"bandwidth_bytes_per_s\"?");
}

// Too much for a line is counted.
static void a_line_stays_a_line(void **state)
{
    const char *nodes = "{}";
    for (int i = 0; i < 40; i++)
        nodes = arena_print(*state, "%s, {}", nodes);
    struct err err = {0};
    assert_null(parse(*state, arena_print(*state, "{\"nodes\": [%s]}", nodes), &err));
    assert_true(strlen(err.text) < sizeof err.text - 128);
    const char *more = strstr(err.text, "; and ");
    assert_non_null(more);
    assert_true(atoi(more + strlen("; and ")) > 20);
    assert_string_equal(strrchr(more, ' '), " more");
}

static void a_network_is_needed_where_there_are_nics_or_nodes(void **state)
{
    check_refused(*state, "{\"nodes\": [" NODE("\"h100-sxm5-80g\"") "]}",
                  "mine.json:1:1: $: missing \"network.kind\"");
    check_refused(*state,
                  "{\"nodes\": [{\"gpus\": 8, \"device\": \"h100-sxm5-80g\", " NVSWITCH
                  "}], " INFINIBAND "}",
                  "mine.json:1:12: $.nodes[0]: missing \"nics.count\", "
                  "\"nics.bandwidth_bytes_per_s\"");
}

static void unknown_kinds_of_fabric_are_answered_with_the_nearest(void **state)
{
    static const struct {
        const char *kind, *mean;
    } KINDS[] = {
        {"NVSwitch", "nvswitch"}, {"nvlink4", "nvlink"}, {"pci", "pcie"}, {"ib", "infiniband"}};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        struct err err = {0};
        const char *text = arena_print(*state,
                                       "{\"nodes\": [{\"gpus\": 8, \"device\": \"h100-sxm5-80g\", "
                                       "\"intra\": {\"kind\": \"%s\", \"bandwidth_bytes_per_s\": "
                                       "1e9}}]}",
                                       KINDS[i].kind);
        const char *start = arena_print(*state,
                                        "mine.json:1:69: $.nodes[0].intra.kind: no fabric is of "
                                        "kind \"%s\", did you mean \"%s\"? There are: nvswitch, ",
                                        KINDS[i].kind, KINDS[i].mean);
        assert_null(parse(*state, text, &err));
        assert_memory_equal(err.text, start, strlen(start));
    }
}

static void names_of_devices_may_be_short_or_those_of_vendors(void **state)
{
    static const struct {
        const char *name, *mean;
    } NAMES[] = {
        {"h100", "\"h100-96g-hbm2e\", \"h100-pcie-80g\" or \"h100-sxm5-80g\"?"},
        {"H100 SXM", "\"h100-sxm5-80g\"?"},
        {"NVIDIA A100-PCIe", "\"a100-pcie-80g\"?"},
        {"rtx4090", "\"rtx-4090-24g\"?"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct err err = {0};
        assert_null(device_load(*state, NAMES[i].name, &err));
        const char *start = arena_print(
            *state, "no device is called \"%s\", did you mean %s There are: ", NAMES[i].name,
            NAMES[i].mean);
        assert_memory_equal(err.text, start, strlen(start));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vendors_sheet_is_enough),
        cmocka_unit_test(all_that_was_taken_is_noted_in_one_line),
        cmocka_unit_test(a_device_of_ones_own_is_filled_from_the_nearest),
        cmocka_unit_test(a_precision_that_no_like_device_has_takes_the_next_wider),
        cmocka_unit_test(what_is_written_reads_again_complete),
        cmocka_unit_test(a_line_may_be_deleted_from_the_template),
        cmocka_unit_test(one_gpu_alone_needs_nothing_that_joins_it),
        cmocka_unit_test(all_missing_keys_are_one_line),
        cmocka_unit_test(all_that_is_wrong_is_told_together),
        cmocka_unit_test(a_line_stays_a_line),
        cmocka_unit_test(a_network_is_needed_where_there_are_nics_or_nodes),
        cmocka_unit_test(unknown_kinds_of_fabric_are_answered_with_the_nearest),
        cmocka_unit_test(names_of_devices_may_be_short_or_those_of_vendors),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
