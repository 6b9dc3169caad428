#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "planner/partition.h"

#include <math.h>

static double brute_force(const struct partition_request *request, int stage, int layer,
                          int *layers)
{
    if (stage == request->stage_count - 1) {
        layers[stage] = request->layer_count - layer;
        return partition_slowest(request, layers);
    }
    double best_s = INFINITY;
    int left = request->stage_count - stage - 1;
    for (int take = 1; take <= request->layer_count - layer - left; take++) {
        layers[stage] = take;
        best_s = fmin(best_s, brute_force(request, stage + 1, layer + take, layers));
    }
    return best_s;
}

static void balanced_stages_are_as_fast_as_brute_force_finds(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("partition", 3);
    for (int i = 0; i < 300; i++) {
        double layer_s[9];
        struct partition_request request = {.layer_count = draw_int(&draw, 1, 9),
                                            .layer_s = layer_s};
        request.stage_count = draw_int(&draw, 1, request.layer_count);
        for (int k = 0; k < request.layer_count; k++) {
            layer_s[k] = draw_int(&draw, 1, 20);
        }
        request.first_s = draw_int(&draw, 0, 20);
        request.last_s = draw_int(&draw, 0, 40);
        request.cut_s = draw_int(&draw, 0, 3);
        int layers[9], trial[9];
        double slowest_s = 0;
        assert_true(partition_balance(arena, &request, layers, &slowest_s));
        assert_true(slowest_s == partition_slowest(&request, layers));
        assert_true(slowest_s == brute_force(&request, 0, 0, trial));
    }
}

static bool holds(const struct partition_request *request, const int *layers)
{
    int layer = 0;
    for (int stage = 0; stage < request->stage_count; stage++) {
        double bytes = stage == 0 ? request->first_bytes : 0;
        if (stage == request->stage_count - 1) bytes += request->last_bytes;
        for (int end = layer + layers[stage]; layer < end; layer++) {
            bytes += request->layer_static_bytes[layer] +
                     request->in_flight[stage] * request->layer_saved_bytes[layer];
        }
        if (bytes > request->limit_bytes) return false;
    }
    return true;
}

static double brute_force_bounded(const struct partition_request *request, int stage, int layer,
                                  int *layers)
{
    if (stage == request->stage_count - 1) {
        layers[stage] = request->layer_count - layer;
        return holds(request, layers) ? partition_slowest(request, layers) : INFINITY;
    }
    double best_s = INFINITY;
    int left = request->stage_count - stage - 1;
    for (int take = 1; take <= request->layer_count - layer - left; take++) {
        layers[stage] = take;
        best_s = fmin(best_s, brute_force_bounded(request, stage + 1, layer + take, layers));
    }
    return best_s;
}

static void balanced_stages_keep_to_the_memory(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("bounded partition", 4);
    int impossible = 0;
    for (int i = 0; i < 300; i++) {
        double layer_s[8], static_bytes[8], saved_bytes[8], in_flight[8];
        struct partition_request request = {.layer_count = draw_int(&draw, 2, 8),
                                            .layer_s = layer_s,
                                            .layer_static_bytes = static_bytes,
                                            .layer_saved_bytes = saved_bytes,
                                            .in_flight = in_flight};
        request.stage_count = draw_int(&draw, 2, request.layer_count);
        for (int k = 0; k < request.layer_count; k++) {
            layer_s[k] = draw_int(&draw, 1, 9);
            static_bytes[k] = draw_int(&draw, 1, 9);
            saved_bytes[k] = draw_int(&draw, 1, 5);
        }
        for (int k = 0; k < request.stage_count; k++) {
            in_flight[k] = request.stage_count - k;
        }
        request.limit_bytes = draw_int(&draw, 10, 60);
        int layers[8], trial[8];
        double slowest_s = INFINITY, best_s = brute_force_bounded(&request, 0, 0, trial);
        bool found = partition_balance(arena, &request, layers, &slowest_s);
        assert_int_equal(found, isfinite(best_s));
        impossible += !found;
        if (!found) continue;
        assert_true(holds(&request, layers));
        assert_true(slowest_s == best_s);
    }
    assert_in_range(impossible, 1, 299);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_stages_are_as_fast_as_brute_force_finds),
        cmocka_unit_test(balanced_stages_keep_to_the_memory),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
