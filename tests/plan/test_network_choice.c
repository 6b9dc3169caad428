#include "planner/choice.h"
#include "tests/support/test.h"

#include <string.h>

// The communication wall (requirement M4): the best way to split a model depends on the network, so
// the same model on two topologies must get two plans, each better at home than the other's.

static const char *cluster_text(struct arena *arena, int nics, double nic_bytes_per_s)
{
    return arena_print(
        arena,
        "{\"name\": \"two\", \"nodes\": [{\"count\": 16, \"gpus\": 8, \"device\": "
        "\"a100-sxm4-80g\", \"intra\": {\"kind\": \"nvswitch\", \"bandwidth_bytes_per_s\": 300e9, "
        "\"latency_s\": 2e-6, \"in_network_reduction\": false}, \"gpus_per_host\": 8, \"host\": "
        "{\"memory_bytes\": 1e12, \"memory_bandwidth_bytes_per_s\": 3e11, \"cores\": 96, "
        "\"pcie_bytes_per_s\": 25e9, \"nvme_bytes_per_s\": 0, \"nvme_bytes\": 0}, \"nics\": "
        "{\"count\": %d, \"bandwidth_bytes_per_s\": %.0f}}], \"network\": {\"kind\": "
        "\"infiniband\", \"latency_s\": 5e-6, \"oversubscription_ratio\": 1, "
        "\"rail_optimized\": true, \"in_network_reduction\": false}}",
        nics, nic_bytes_per_s);
}

static const struct cluster *cluster_of(struct arena *arena, int nics, double nic_bytes_per_s)
{
    struct err err = {0};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    const char *text = cluster_text(arena, nics, nic_bytes_per_s);
    assert_true(json_parse(arena, "two.json", text, strlen(text), document, &err));
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    const struct cluster *cluster = cluster_read(arena, root, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

static struct candidate best_on(struct arena *arena, const struct cluster *cluster,
                                const struct parallel *pinned)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, "llama-2-70b", NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 4096, .global_batch = 1024, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    for (int choice = 0; pinned && choice < CHOICE_COUNT; choice++) {
        int64_t value = choice_value(pinned, (enum choice)choice);
        pins_set(&request.pins, (enum choice)choice, value, value);
    }
    if (pinned) {
        request.pins.stage_layers = pinned->stage_layers;
        request.pins.stage_layers_count = pinned->stage_layers_count;
    }
    struct search_result result = {0};
    assert_string_equal(err.text, "");
    bool done = search_plans(arena, &request, &result, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    assert_true(result.best_count > 0);
    return result.best[0];
}

static void a_slow_network_gets_another_plan(void **state)
{
    struct arena *arena = *state;
    const struct cluster *slow = cluster_of(arena, 1, 3e9), *fast = cluster_of(arena, 8, 50e9);
    struct candidate at_slow = best_on(arena, slow, NULL), at_fast = best_on(arena, fast, NULL);
    assert_true(memcmp(at_slow.parallel.degree, at_fast.parallel.degree,
                       sizeof at_slow.parallel.degree) != 0);
    struct candidate moved = best_on(arena, slow, &at_fast.parallel);
    assert_true(moved.cost.step_s > at_slow.cost.step_s * 1.05);
    moved = best_on(arena, fast, &at_slow.parallel);
    assert_true(moved.cost.step_s > at_fast.cost.step_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_network_gets_another_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
