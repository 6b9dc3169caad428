#include "planner/tables/place.h"
#include "tests/support/test.h"

#include <stdio.h>

static struct place_request request_of(struct arena *arena, const char *model, const char *cluster)
{
    struct err err = {0};
    struct place_request request = {
        .model = recommender_load(arena, model, &err),
        .cluster = cluster_load(arena, cluster, &err),
        .fabrics = fabrics_load(arena, &err),
        .stack = table_stack_load(arena, "hugectr", &err),
        .workload = {55296, PRECISION_FP16, TABLE_ADAGRAD, CACHE_STATIC},
    };
    assert_string_equal(err.text, "");
    return request;
}

// On two cards of 80 GB there is room for 104.5 GB and a number a row, on one there is not; with a
// host there is, and what is not on the device is fetched.
static void tables_go_to_the_host_where_devices_are_full(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct place_request request = request_of(arena, "dlrm-dcnv2-mlperf", "dgx-h100-x1");
    request.workload.optimizer = TABLE_ROWWISE;
    struct fewest fewest;
    assert_true(place_fewest(arena, &request, 64, &fewest, &err));
    assert_int_equal(fewest.gpus, 2);
    assert_true(fewest.result.prediction.hit_ratio == 1);
    double device_s = fewest.result.prediction.step_s;
    request.uses_host = true;
    assert_true(place_fewest(arena, &request, 64, &fewest, &err));
    assert_int_equal(fewest.gpus, 1);
    const struct table_prediction *prediction = &fewest.result.prediction;
    assert_true((double)prediction->host_bytes > 20e9);
    assert_true(prediction->hit_ratio > 0.5 && prediction->hit_ratio < 1);
    assert_true(prediction->spans[TABLE_TASK_FETCH].s > 0 && prediction->step_s > device_s);
    assert_true(prediction->memory.device_bytes <= prediction->device_limit_bytes);
}

static void ten_terabytes_need_fewer_cards_with_hosts(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct place_request request = request_of(arena, "dlrm-10tb", "dgx-h100-x1");
    request.workload.optimizer = TABLE_ROWWISE;
    request.workload.global_batch = 65536;
    struct fewest without, with;
    assert_true(place_fewest(arena, &request, 512, &without, &err));
    request.uses_host = true;
    assert_true(place_fewest(arena, &request, 512, &with, &err));
    assert_string_equal(err.text, "");
    printf("# 10 TB: %d cards at %.0f samples/s, with hosts %d at %.0f\n", without.gpus,
           without.result.prediction.samples_per_s, with.gpus,
           with.result.prediction.samples_per_s);
    double bytes = (double)recommender_row_count(request.model) * 516;
    assert_true(without.gpus >= bytes / 84.93e9 && without.gpus <= bytes / 84.93e9 * 1.2 + 8);
    assert_true(with.gpus % 8 == 0 && with.gpus < without.gpus / 3);
    assert_true(with.result.prediction.samples_per_s < without.result.prediction.samples_per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_go_to_the_host_where_devices_are_full),
        cmocka_unit_test(ten_terabytes_need_fewer_cards_with_hosts),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
