#include "tests/support/test.h"

#include "planner/per_operator.h"
#include "planner/ranking.h"
#include "simulator/closed_form.h"
#include "tests/support/layout_rules_draw.h"
#include "topologies/cluster.h"

#include <math.h>

// Layouts that a search finds for single operators, against whole plans with drawn ones, which the
// evaluator of every command prices.

enum { DRAWS = 120 };

static struct evaluation_request request_of(struct arena *arena, const char *model,
                                            const char *cluster_name, int gpus, int tp, bool sp)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, cluster_name, &err);
    assert_true(cluster && cluster_take_gpus(cluster, gpus, &err));
    struct evaluation_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024,
                     .global_batch = 16,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .parallel = {.vpp = 1, .micro_batch = 2, .recompute_layers = -1, .sp = sp},
    };
    assert_string_equal(err.text, "");
    parallel_default_order(&request.parallel);
    for (int i = 0; i < AXIS_COUNT; i++)
        request.parallel.degree[i] = 1;
    request.parallel.degree[AXIS_TP] = tp;
    request.parallel.degree[AXIS_DP] = gpus / tp;
    request.parallel.schedule = SCHEDULE_1F1B;
    request.parallel.passes = request.stack->passes;
    return request;
}

// False where the plan is refused.
static bool price(const struct evaluation_request *request, const struct parallel *parallel,
                  double *step_s, int64_t *reserved_bytes)
{
    struct arena arena = {0}, scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    struct evaluation_request asked = *request;
    asked.parallel = *parallel;
    bool done = evaluate(&arena, &scratch, &asked, &evaluation, &err);
    if (done) {
        *step_s = closed_form(evaluation.price).step_s;
        *reserved_bytes = evaluation.stage_memory[evaluation.worst_stage].reserved_bytes;
    }
    arena_free(&arena);
    arena_free(&scratch);
    return done;
}

static void check_found(struct arena *arena, struct draw *draw,
                        const struct evaluation_request *request, bool is_gain)
{
    struct arena scratch = {0};
    struct per_operator found = per_operator_find(arena, &scratch, request);
    double table_s = 0, found_s = 0, drawn_s = 0;
    int64_t table_bytes = 0, found_bytes = 0, drawn_bytes = 0;
    assert_true(price(request, &request->parallel, &table_s, &table_bytes));
    assert_true(price(request, &found.parallel, &found_s, &found_bytes));
    assert_true(fabs(found.table_s - table_s) <= 1e-9 * table_s);
    assert_true(fabs(found.found_s - found_s) <= 1e-9 * found_s);
    assert_true(step_ns(found_s) <= step_ns(table_s));
    assert_int_equal(is_gain, found.change_count > 0);
    assert_int_equal(is_gain, step_ns(found_s) < step_ns(table_s));
    int64_t limit = cluster_device_bytes(request->cluster);
    assert_true(found_bytes <= (limit > table_bytes ? limit : table_bytes));
    for (int i = 0; i < found.change_count; i++)
        assert_true(isnan(found.changes[i].gain_s) || found.changes[i].gain_s > 0);

    const struct graph *graph =
        evaluation_graph(arena, request->model, request->stack, &request->parallel);
    for (int i = 0; i < DRAWS; i++) {
        struct parallel parallel = request->parallel;
        struct drawn_rules drawn =
            layout_rules_draw(&scratch, draw, graph, 1 << draw_int(draw, 1, 4));
        parallel.layouts = drawn.rules;
        parallel.layout_count = drawn.count;
        if (!price(request, &parallel, &drawn_s, &drawn_bytes)) continue;
        if (drawn_bytes <= limit) assert_true(step_ns(found_s) <= step_ns(drawn_s));
        arena_free(&scratch);
    }
    arena_free(&scratch);
}

static void no_drawn_layouts_are_faster_than_what_is_found(void **state)
{
    struct draw draw = draw_start("layouts of operators", 2026);
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 4, 4, true);
    check_found(*state, &draw, &request, true);
    request = request_of(*state, "gpt2", "a100-pcie8", 8, 2, false);
    check_found(*state, &draw, &request, true);
    request = request_of(*state, "llama-3-8b", "dgx-h100", 8, 8, true);
    check_found(*state, &draw, &request, true);
}

static void one_rank_of_tp_has_one_layout(void **state)
{
    struct draw draw = draw_start("layouts of one rank", 2026);
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 2, 1, false);
    struct arena scratch = {0};
    check_found(*state, &draw, &request, false);
    struct per_operator found = per_operator_find(*state, &scratch, &request);
    assert_int_equal(found.operator_count, 0);
    assert_int_equal(found.parallel.layout_count, 0);
    arena_free(&scratch);
}

// Costs of a step of weeks are within what problems may hold.
static void a_step_may_take_weeks(void **state)
{
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 4, 4, true);
    struct arena scratch = {0};
    struct per_operator short_step = per_operator_find(*state, &scratch, &request);
    request.workload.global_batch <<= 22;
    struct per_operator found = per_operator_find(*state, &scratch, &request);
    assert_true(found.table_s > 1e5 && found.found_s < found.table_s);
    assert_int_equal(found.parallel.layout_count, short_step.parallel.layout_count);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_drawn_layouts_are_faster_than_what_is_found),
        cmocka_unit_test(one_rank_of_tp_has_one_layout),
        cmocka_unit_test(a_step_may_take_weeks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
