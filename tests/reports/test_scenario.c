#include "tests/support/test.h"

#include "core/json_write.h"
#include "planner/choice.h"
#include "reports/whatif/scenario.h"

#include <stdio.h>

enum { CASE_COUNT = 10 };

static struct scenario_request request_of(struct arena *arena)
{
    struct err err = {0};
    struct scenario_request request = {
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
        .workers = 1,
    };
    assert_string_equal(err.text, "");
    return request;
}

static const struct cluster *priced(struct arena *arena, const char *name, double per_gpu_hour)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    cluster->price = (struct price){.per_gpu_hour = per_gpu_hour, .currency = "USD"};
    return cluster;
}

// Two sizes, two prices each, two lengths, one that does not fit and one that cannot be.
static struct scenario *scenarios_of(struct arena *arena)
{
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, CASE_COUNT);
    for (int i = 0; i < CASE_COUNT; i++) {
        const char *name = i % 2 ? "dgx-a100-80g" : "dgx-h100-x2";
        scenarios[i] = (struct scenario){
            .label = arena_print(arena, "case %d", i),
            .cluster = priced(arena, name, i / 4 + 1),
            .workload = {.seq_len = i / 2 % 2 ? 2048 : 4096,
                         .global_batch = 64,
                         .precision = PRECISION_BF16,
                         .optimizer = OPTIMIZER_ADAMW},
            .pins = pins_none(),
            .tokens = 1e9 * (i + 1),
        };
        scenarios[i].workload.tokens = scenarios[i].tokens;
    }
    pins_set(&scenarios[8].pins, CHOICE_DP, 16, 16);
    pins_set(&scenarios[8].pins, CHOICE_ZERO, 0, 0);
    pins_set(&scenarios[9].pins, CHOICE_TP, 7, 7);
    return scenarios;
}

static const char *outcomes_text(struct arena *arena, const struct scenario_outcome *outcomes)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '[');
    for (int i = 0; i < CASE_COUNT; i++) {
        const struct scenario_outcome *outcome = &outcomes[i];
        json_open(&writer, NULL, '{');
        json_put_i64(&writer, "status", outcome->status);
        json_put_text(&writer, "reason", outcome->reason ? outcome->reason : "");
        for (int choice = 0; choice < CHOICE_COUNT; choice++) {
            int64_t value = choice_value(&outcome->best.parallel, (enum choice)choice);
            json_put_i64(&writer, choice_name((enum choice)choice), value);
        }
        json_put_f64(&writer, "step_s", outcome->prediction.step_s);
        json_put_f64(&writer, "run_s", outcome->prediction.money.train_s);
        json_put_f64(&writer, "run_money", outcome->prediction.money.total);
        json_put_f64(&writer, "money_high", outcome->prediction.money_high.total);
        json_put_f64(&writer, "goodput_ratio", outcome->prediction.goodput.goodput_ratio);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    return writer.text;
}

static const char *run(struct arena *arena, const struct scenario_request *request,
                       struct scenario_outcome *outcomes)
{
    struct err err = {0};
    assert_true(scenarios_run(arena, request, scenarios_of(arena), CASE_COUNT, outcomes, &err));
    assert_string_equal(err.text, "");
    return outcomes_text(arena, outcomes);
}

static void neither_workers_nor_sharing_change_a_byte(void **state)
{
    struct arena *arena = *state;
    struct scenario_request request = request_of(arena);
    struct scenario_outcome outcomes[CASE_COUNT];
    const char *one = run(arena, &request, outcomes);
    assert_int_equal(scenarios_searched(outcomes, CASE_COUNT), 6);
    for (int workers = 2; workers <= 9; workers += 7) {
        request.workers = workers;
        assert_string_equal(run(arena, &request, outcomes), one);
    }
    request.alone = true;
    assert_string_equal(run(arena, &request, outcomes), one);
    assert_int_equal(scenarios_searched(outcomes, CASE_COUNT), CASE_COUNT);
}

// The oracle: each scenario by itself, as `plan` asks it.
static void an_outcome_is_what_plan_says(void **state)
{
    struct arena *arena = *state;
    struct scenario_request request = request_of(arena);
    struct scenario_outcome outcomes[CASE_COUNT];
    run(arena, &request, outcomes);
    const struct scenario *scenarios = scenarios_of(arena);
    for (int i = 0; i < CASE_COUNT; i++) {
        struct err err = {0};
        struct search_request search = {.model = request.model,
                                        .cluster = scenarios[i].cluster,
                                        .stack = request.stack,
                                        .fabrics = request.fabrics,
                                        .workload = scenarios[i].workload,
                                        .pins = scenarios[i].pins,
                                        .top = 5};
        struct search_result result;
        bool done = search_plans(arena, &search, &result, &err);
        if (!done) {
            assert_int_equal(outcomes[i].status, SCENARIO_IMPOSSIBLE);
            assert_string_equal(outcomes[i].reason, err.text);
            continue;
        }
        bool fits = result.status != SEARCH_NOTHING_FITS;
        assert_int_equal(outcomes[i].status, fits ? SCENARIO_FITS : SCENARIO_NOTHING_FITS);
        if (!fits) {
            assert_int_equal(outcomes[i].best.memory.reserved_bytes,
                             result.closest.memory.reserved_bytes);
            continue;
        }
        assert_true(outcomes[i].prediction.step_s == result.best[0].cost.step_s);
        const struct evaluation_request asked = {.model = request.model,
                                                 .cluster = scenarios[i].cluster,
                                                 .stack = request.stack,
                                                 .fabrics = request.fabrics,
                                                 .bands = request.bands,
                                                 .workload = scenarios[i].workload,
                                                 .parallel = result.best[0].parallel,
                                                 .selected_count = result.considered_count};
        struct evaluation evaluation = {0};
        struct arena scratch = {0};
        assert_true(evaluate(arena, &scratch, &asked, &evaluation, &err));
        arena_free(&scratch);
        const struct prediction *wanted = &evaluation.prediction, *found = &outcomes[i].prediction;
        assert_true(wanted->money.total > 0);
        assert_memory_equal(&found->money, &wanted->money, sizeof wanted->money);
        assert_memory_equal(&found->money_low, &wanted->money_low, sizeof wanted->money);
        assert_memory_equal(&found->money_high, &wanted->money_high, sizeof wanted->money);
        assert_memory_equal(&found->goodput, &wanted->goodput, sizeof wanted->goodput);
    }
    assert_int_equal(outcomes[8].status, SCENARIO_NOTHING_FITS);
    assert_int_equal(outcomes[9].status, SCENARIO_IMPOSSIBLE);
}

static void count_calls(void *context, int done, int count)
{
    int *calls = context;
    ++*calls;
    assert_int_equal(done, *calls);
    assert_int_equal(count, 6);
}

static void progress_counts_every_search_once(void **state)
{
    struct arena *arena = *state;
    struct scenario_request request = request_of(arena);
    struct scenario_outcome outcomes[CASE_COUNT];
    int calls = 0;
    request.workers = 3;
    request.progress = count_calls;
    request.progress_context = &calls;
    run(arena, &request, outcomes);
    assert_int_equal(calls, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_workers_nor_sharing_change_a_byte),
        cmocka_unit_test(an_outcome_is_what_plan_says),
        cmocka_unit_test(progress_counts_every_search_once),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
