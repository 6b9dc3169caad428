#include "planner/choice.h"
#include "reports/whatif/whatif_placed.h"
#include "tests/support/test.h"

#include <math.h>

// One A100 of 80 GB with 2 TB of host memory and 30 TB of NVMe.
struct asked {
    struct scenario_request request;
    struct scenario scenario;
};

static struct asked ask(struct arena *arena, const char *model, int64_t host_bytes,
                        int64_t nvme_bytes)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", &err);
    assert_non_null(cluster);
    cluster->nodes[0].count = 1;
    cluster->nodes[0].gpus = 1;
    cluster->nodes[0].gpus_per_host = 1;
    cluster->nodes[0].host.memory_bytes = host_bytes;
    cluster->nodes[0].host.nvme_bytes = nvme_bytes;
    cluster->rank_count = 1;
    struct asked asked = {
        .request = {.model = model_load(arena, model, NULL, NULL, &err),
                    .stack = stack_load(arena, "meshwright", &err),
                    .fabrics = fabrics_load(arena, &err),
                    .workers = 1},
        .scenario = {.label = "one",
                     .cluster = cluster,
                     .workload = {.seq_len = 1024,
                                  .global_batch = 16,
                                  .precision = PRECISION_BF16,
                                  .optimizer = OPTIMIZER_ADAMW,
                                  .expert_imbalance = 1},
                     .pins = pins_none()},
    };
    assert_string_equal(err.text, "");
    return asked;
}

// Model states alone: bf16 weights, the stack's gradients, and what the host keeps of Adam.
static double state_bytes(const struct asked *asked)
{
    const struct stack *stack = asked->request.stack;
    return 2 + stack_gradient_bytes(stack, PRECISION_BF16) +
           stack_host_state_bytes(stack, OPTIMIZER_ADAMW, PRECISION_BF16);
}

static void one_gpu_holds_a_hundred_times_more_with_nvme(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct asked asked = ask(arena, "llama-2-7b", 2000000000000, 30000000000000);
    struct placed_sizes found;
    struct largest_model device;
    assert_true(largest_model_find(arena, &asked.request, &asked.scenario, &device, &err));
    assert_true(placed_sizes_find(arena, &asked.request, &asked.scenario, &found, &err));
    assert_true(found.largest[CAPACITY_HOST] >= 0);
    assert_true(found.largest[CAPACITY_NVME] > found.largest[CAPACITY_HOST]);
    const struct placed_size *host = &found.sizes[found.largest[CAPACITY_HOST]];
    const struct placed_size *nvme = &found.sizes[found.largest[CAPACITY_NVME]];
    // No more than the arithmetic allows, and no less than it allows models whose heads go up by
    // eight: the next one has a good third more parameters at most.
    double each = state_bytes(&asked);
    assert_true(host->parameter_count * each <= 2e12);
    assert_true(host->parameter_count * each >= 2e12 / 1.6);
    assert_true(nvme->parameter_count * each <= 32e12);
    assert_true(nvme->parameter_count * each >= 32e12 / 1.6);
    assert_true(nvme->parameter_count >= 100 * device.tiers[CAPACITY_GPU].parameter_count);
    for (int i = 0; i < found.count; i++) {
        const struct placed_size *at = &found.sizes[i];
        double home = (double)(at->home_bytes[TIER_HOST] + at->home_bytes[TIER_NVME]);
        assert_true(at->home_bytes[TIER_HOST] <= 2000000000000);
        assert_true(home >= at->parameter_count * each * (1 - 1e-3));
        assert_true(at->step_s >= at->busiest_s * (1 - 1e-9));
        assert_true(fabs(at->tokens_per_s * at->step_s - 16 * 1024) < 1e-3);
        assert_true(i == 0 || at->parameter_count > found.sizes[i - 1].parameter_count);
        // Within 15 % of what no order goes below.
        assert_true(at->step_s <= 1.15 * at->busiest_s);
    }
}

static void without_drives_both_capacities_are_the_hosts(void **state)
{
    struct err err = {0};
    struct asked asked = ask(*state, "gpt2", 100000000000, 0);
    asked.scenario.workload.global_batch = 4;
    struct placed_sizes found;
    assert_true(placed_sizes_find(*state, &asked.request, &asked.scenario, &found, &err));
    assert_true(found.count > 0);
    assert_int_equal(found.largest[CAPACITY_HOST], found.largest[CAPACITY_NVME]);
    assert_true(found.sizes[found.count - 1].parameter_count * state_bytes(&asked) <= 100e9);
    // Less than the smallest needs.
    asked = ask(*state, "llama-2-7b", 1000000, 0);
    assert_true(placed_sizes_find(*state, &asked.request, &asked.scenario, &found, &err));
    assert_int_equal(found.count, 0);
    assert_int_equal(found.largest[CAPACITY_HOST], -1);
}

// What others trained with their state off the device. Ren et al. 2021 (ZeRO-Offload, abstract):
// over 13 B parameters on one V100 of 32 GB, and 10 B of them at 40 TFLOP/s. Rajbhandari et al.
// 2021 (ZeRO-Infinity, abstract): a trillion on one DGX-2, which has 16 of them.
static void published_models_fit_where_they_were_trained(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct asked asked = ask(arena, "gpt3-13b", 0, 0);
    struct cluster *cluster = cluster_load(arena, "dgx-v100", &err);
    assert_non_null(cluster);
    cluster->nodes[0].count = cluster->nodes[0].gpus = cluster->nodes[0].gpus_per_host = 1;
    cluster->rank_count = 1;
    asked.scenario.cluster = cluster;
    asked.scenario.workload.precision = PRECISION_FP16;
    asked.scenario.workload.global_batch = 512;
    pins_set(&asked.scenario.pins, CHOICE_MICRO_BATCH, 32, 32);
    struct placed_sizes found;
    assert_true(placed_sizes_find(arena, &asked.request, &asked.scenario, &found, &err));
    assert_true(found.largest[CAPACITY_HOST] >= 0);
    const struct placed_size *largest = &found.sizes[found.largest[CAPACITY_HOST]];
    assert_true(largest->parameter_count >= 13e9);
    assert_true(largest->flop_per_s_per_gpu > 30e12 && largest->flop_per_s_per_gpu < 125e12);
    cluster = cluster_load(arena, "dgx2-v100", &err);
    assert_non_null(cluster);
    asked.scenario.cluster = cluster;
    asked.scenario.workload.global_batch = 16;
    pins_set(&asked.scenario.pins, CHOICE_MICRO_BATCH, 8, 8);
    pins_set(&asked.scenario.pins, CHOICE_TP, 8, 8);
    assert_true(placed_sizes_find(arena, &asked.request, &asked.scenario, &found, &err));
    assert_true(found.largest[CAPACITY_NVME] >= 0);
    assert_true(found.sizes[found.largest[CAPACITY_NVME]].parameter_count >= 1e12);
    // Of a pipeline nothing is asked.
    pins_set(&asked.scenario.pins, CHOICE_PP, 2, 2);
    assert_true(placed_sizes_find(arena, &asked.request, &asked.scenario, &found, &err));
    assert_true(found.is_piped && found.count == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_holds_a_hundred_times_more_with_nvme),
        cmocka_unit_test(published_models_fit_where_they_were_trained),
        cmocka_unit_test(without_drives_both_capacities_are_the_hosts),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
