#include "tests/support/test.h"

#include "planner/choice.h"
#include "reports/whatif/tensor_kinds.h"

#include <string.h>

// Tensor parallel ranks in a line and as grids on nodes of 4 fast GPUs that one slow NIC each
// joins.

static const double LAYERS_H = 4096, LAYERS_F = 11008, TOKENS = 128.0 * 4096, BYTES = 2;

static void find(struct arena *arena, const char *cluster, int tp, struct tensor_kinds *found)
{
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    const struct scenario_request request = {.model =
                                                 model_load(arena, "llama-2-7b", NULL, NULL, &err),
                                             .stack = stack_load(arena, "meshwright", &err),
                                             .fabrics = fabrics,
                                             .bands = bands_load(arena, &err),
                                             .objective = OBJECTIVE_TIME,
                                             .workers = 1};
    struct scenario scenario = {.label = "islands",
                                .cluster = cluster_load(arena, cluster, &err),
                                .workload = {.seq_len = 4096,
                                             .global_batch = 256,
                                             .precision = PRECISION_BF16,
                                             .optimizer = OPTIMIZER_ADAMW},
                                .pins = pins_none()};
    assert_string_equal(err.text, "");
    pins_set(&scenario.pins, CHOICE_TP, tp, tp);
    pins_set(&scenario.pins, CHOICE_DP, 32 / tp, 32 / tp);
    assert_true(tensor_kinds_find(arena, &request, &scenario, found, &err));
    assert_string_equal(err.text, "");
}

static void is_near(double found, double wanted, double most_ratio)
{
    if (!(found >= wanted * (1 - 1e-9) && found <= wanted * (1 + most_ratio)))
        fail_msg("%.6g, wanted %.6g", found, wanted);
}

// 1D: 8 (t - 1) / t M H of activations, all of it between nodes. 2D, q = 4: 10 (q - 1) / q M H / q
// inside them, and 3 (q - 1) / q W / q of weights a micro-batch between them. A norm's sums are a
// number a token beside H of them.
static void where_islands_are_joined_by_slow_links_a_grid_is_best(void **state)
{
    struct tensor_kinds found;
    find(*state, "tests/data/cluster_islands.json", 16, &found);
    assert_int_equal(found.best, TP_2D);
    const struct tensor_kind *line = &found.kinds[TP_1D], *grid = &found.kinds[TP_2D];
    assert_int_equal(line->outcome.best.parallel.degree[AXIS_DP], 2);
    is_near(line->between_bytes, BYTES * 8 * 15 / 16 * TOKENS * LAYERS_H, 0);
    assert_true(line->inside_bytes == 0);
    is_near(grid->inside_bytes, BYTES * 10 * 3 / 4 * TOKENS * LAYERS_H / 4, 0.01);
    double weights = 4 * LAYERS_H * LAYERS_H + 3 * LAYERS_H * LAYERS_F;
    double rounds = 128.0 / grid->outcome.best.parallel.micro_batch;
    is_near(grid->between_bytes, rounds * BYTES * 3 * 3 / 4 * weights / 4, 0.01);
    double ratio = line->outcome.prediction.step_s / grid->outcome.prediction.step_s;
    assert_true(ratio > 5 && ratio < 8);
    const char *why = tensor_kinds_why(*state, &found);
    assert_non_null(strstr(why, "2d is the fastest and fits the links best: its ranks wait"));
    assert_non_null(strstr(why, "434 MiB between nodes, in 1d 30.0 GiB"));
    assert_int_equal(found.other, TP_1D);
    is_near(found.kinds[TP_2D_SUMMA].inside_bytes,
            BYTES * (9 * LAYERS_H + 3 * LAYERS_F) / LAYERS_H * 3 / 4 * TOKENS * LAYERS_H / 4, 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_islands_are_joined_by_slow_links_a_grid_is_best),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
