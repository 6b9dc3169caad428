#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "planner/partition.h"

#include <math.h>
#include <string.h>

enum { LAYERS_MOST = 9 };

// The slowest stage of a split, told again; INFINITY where a stage does not fit.
static double slowest_of(const struct partition_request *request, const int *layers)
{
    double slowest_s = 0;
    int last = request->stage_count - 1, layer = 0;
    for (int stage = 0; stage <= last; stage++) {
        double s = stage == last ? request->last_s : request->cut_s, bytes = 0;
        if (stage == 0) s += request->first_s, bytes += request->first_bytes;
        if (stage == last) bytes += request->last_bytes;
        for (int i = 0; i < layers[stage]; i++, layer++) {
            s += request->layer_s[layer];
            if (!request->in_flight) continue;
            bytes += request->layer_static_bytes[layer];
            bytes += request->in_flight[stage] * request->layer_saved_bytes[layer];
        }
        if (request->in_flight && bytes > request->limit_bytes) return INFINITY;
        if (s > slowest_s) slowest_s = s;
    }
    return slowest_s;
}

// All splits, those first that fill later stages: the first of the fastest is the answer.
static void brute_force(const struct partition_request *request, int stage, int left, int *trial,
                        int *best, double *best_s)
{
    for (int take = stage == 0 ? left : left - stage; take >= 1; take--) {
        trial[stage] = take;
        if (stage > 0) {
            brute_force(request, stage - 1, left - take, trial, best, best_s);
            continue;
        }
        double s = slowest_of(request, trial);
        if (s < *best_s) {
            *best_s = s;
            memcpy(best, trial, (size_t)request->stage_count * sizeof *best);
        }
        return;
    }
}

static bool check_best(struct arena *arena, const struct partition_request *request)
{
    int layers[LAYERS_MOST], trial[LAYERS_MOST], best[LAYERS_MOST];
    double slowest_s = INFINITY, best_s = INFINITY;
    brute_force(request, request->stage_count - 1, request->layer_count, trial, best, &best_s);
    bool found = partition_balance(arena, request, layers, &slowest_s);
    assert_int_equal(found, isfinite(best_s));
    if (!found) return false;
    assert_true(slowest_s == best_s && partition_slowest(request, layers) == best_s);
    assert_memory_equal(layers, best, (size_t)request->stage_count * sizeof *best);
    return true;
}

static void balanced_stages_are_those_that_brute_force_finds(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("partition", 3);
    for (int i = 0; i < 300; i++) {
        double layer_s[LAYERS_MOST];
        struct partition_request request = {.layer_count = draw_int(&draw, 1, LAYERS_MOST),
                                            .layer_s = layer_s};
        request.stage_count = draw_int(&draw, 1, request.layer_count);
        for (int k = 0; k < request.layer_count; k++)
            layer_s[k] = draw_int(&draw, 1, 20) / 256.0;
        request.first_s = draw_int(&draw, 0, 20) / 256.0;
        request.last_s = draw_int(&draw, 0, 40) / 256.0;
        request.cut_s = draw_int(&draw, 0, 3) / 256.0;
        assert_true(check_best(arena, &request));
    }
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
        for (int k = 0; k < request.stage_count; k++)
            in_flight[k] = request.stage_count - k;
        request.first_bytes = draw_int(&draw, 0, 9);
        request.last_bytes = draw_int(&draw, 0, 9);
        request.limit_bytes = draw_int(&draw, 10, 60);
        impossible += !check_best(arena, &request);
    }
    assert_in_range(impossible, 1, 299);
}

static void fewer_layers_than_stages_have_no_split(void **state)
{
    double layer_s[] = {1, 1};
    int layers[3];
    struct partition_request request = {.layer_count = 2, .stage_count = 3, .layer_s = layer_s};
    assert_false(partition_balance(*state, &request, layers, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_stages_are_those_that_brute_force_finds),
        cmocka_unit_test(balanced_stages_keep_to_the_memory),
        cmocka_unit_test(fewer_layers_than_stages_have_no_split),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
