#include "tests/support/test.h"

#include "models/scaled.h"
#include "planner/choice.h"
#include "reports/whatif/scenario_share.h"
#include "reports/whatif/whatif.h"
#include "reports/whatif/whatif_sizes.h"

#include <math.h>
#include <stdio.h>

// The oracle asks every plan by itself, as `plan` does, and answers the question by looking at all
// of them.
struct lone {
    bool fits;
    double tokens_per_s, goodput_ratio, expected_s, gpus, price;
};

struct whatif_asked {
    struct arena *arena;
    struct scenario_request request;
    struct sweep sweep;
    struct sweep_points points;
    struct lone *lone;
    struct scenario_outcome *outcomes;
};

static const struct cluster *priced(struct arena *arena, const char *name, double per_gpu_hour)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    cluster->price = (struct price){.per_gpu_hour = per_gpu_hour, .currency = "USD"};
    return cluster;
}

static struct scenario_request request_of(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct scenario_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
        .workers = 2,
    };
    assert_string_equal(err.text, "");
    return request;
}

static struct lone ask_alone(struct whatif_asked *question, const struct scenario *scenario)
{
    struct arena *arena = question->arena;
    struct err err = {0};
    const struct search_request search = {.model = question->request.model,
                                          .cluster = scenario->cluster,
                                          .stack = question->request.stack,
                                          .fabrics = question->request.fabrics,
                                          .workload = scenario->workload,
                                          .pins = scenario->pins,
                                          .top = 1,
                                          .nothing = SEARCH_FITS_ONLY};
    struct search_result result;
    struct lone lone = {.gpus = scenario->cluster->rank_count,
                        .price = scenario->cluster->price.per_gpu_hour};
    if (!search_plans(arena, &search, &result, &err)) return lone;
    if (result.status == SEARCH_NOTHING_FITS) return lone;
    const struct evaluation_request evaluation_request = {.model = search.model,
                                                          .cluster = search.cluster,
                                                          .stack = search.stack,
                                                          .fabrics = search.fabrics,
                                                          .workload = search.workload,
                                                          .parallel = result.best[0].parallel};
    struct evaluation evaluation = {0};
    struct arena scratch = {0};
    assert_true(evaluate(arena, &scratch, &evaluation_request, &evaluation, &err));
    arena_free(&scratch);
    lone.fits = true;
    lone.tokens_per_s = evaluation.prediction.tokens_per_s;
    lone.goodput_ratio = evaluation.prediction.goodput.goodput_ratio;
    lone.expected_s = evaluation.prediction.goodput.expected_s;
    return lone;
}

// Two clusters at four sizes and two batches, of which some do not fit.
static void make_question(struct arena *arena, double tokens, struct whatif_asked *question)
{
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, 2);
    clusters[0] = priced(arena, "dgx-a100-80g", 1.5);
    clusters[1] = priced(arena, "dgx-h100", 2.5);
    *question = (struct whatif_asked){.arena = arena, .request = request_of(arena, "llama-2-7b")};
    question->sweep = (struct sweep){
        .clusters = clusters,
        .cluster_count = 2,
        .workload = {.seq_len = 4096,
                     .global_batch = 64,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW,
                     .tokens = tokens},
        .pins = pins_none(),
    };
    struct err err = {0};
    assert_true(
        sweep_parse(arena, SWEEP_GPUS, "1,2,8,16", &question->sweep.axes[SWEEP_GPUS], &err));
    assert_true(sweep_points(arena, &question->sweep, &question->points, &err));
    question->lone = ARENA_NEW(arena, struct lone, question->points.count);
    for (int i = 0; i < question->points.count; i++) {
        question->lone[i] = ask_alone(question, &question->points.items[i].scenario);
    }
    int count = question->points.count;
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, count);
    question->outcomes = ARENA_NEW(arena, struct scenario_outcome, count);
    for (int i = 0; i < count; i++) {
        scenarios[i] = question->points.items[i].scenario;
    }
    assert_true(
        scenarios_run(arena, &question->request, scenarios, count, question->outcomes, &err));
}

static void answer(struct whatif_asked *question, const struct whatif_question *asked,
                   struct whatif *whatif)
{
    struct arena *arena = question->arena;
    struct err err = {0};
    bool made = whatif_make(arena, asked, &question->sweep, &question->request, &question->points,
                            question->outcomes, whatif, &err);
    assert_string_equal(err.text, "");
    assert_true(made);
}

static double money_of_run(const struct lone *lone)
{
    return lone->expected_s * lone->gpus / 3600 * lone->price;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void the_cheapest_in_time_is_what_brute_force_finds(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 50e9, &question);
    int answered = 0, refused = 0;
    for (double days = 1; days < 200; days *= 1.7) {
        struct whatif whatif;
        const struct whatif_question asked = {.tokens = 50e9, .deadline_s = days * 86400};
        answer(&question, &asked, &whatif);
        const struct lone *best = NULL;
        for (int i = 0; i < question.points.count; i++) {
            const struct lone *lone = &question.lone[i];
            if (!lone->fits || lone->expected_s > asked.deadline_s) continue;
            if (!best || money_of_run(lone) < money_of_run(best)) best = lone;
        }
        const struct whatif_row *found = whatif_best(&whatif);
        assert_int_equal(found != NULL, best != NULL);
        answered += found != NULL;
        refused += found == NULL;
        if (!found) continue;
        assert_int_equal(found - whatif.rows, best - question.lone);
        assert_true(is_near(found->time_s, best->expected_s));
        assert_true(is_near(found->money, money_of_run(best)));
    }
    assert_true(answered > 2 && refused > 0);
}

static void the_fastest_for_the_money_is_what_brute_force_finds(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 50e9, &question);
    int answered = 0, refused = 0;
    for (double budget = 1000; budget < 1e5; budget *= 1.2) {
        struct whatif whatif;
        const struct whatif_question asked = {.tokens = 50e9, .budget = budget, .credits = 500};
        answer(&question, &asked, &whatif);
        const struct lone *best = NULL;
        for (int i = 0; i < question.points.count; i++) {
            const struct lone *lone = &question.lone[i];
            if (!lone->fits || money_of_run(lone) - 500 > budget) continue;
            if (!best || lone->expected_s < best->expected_s) best = lone;
        }
        const struct whatif_row *found = whatif_best(&whatif);
        assert_int_equal(found != NULL, best != NULL);
        answered += found != NULL;
        refused += found == NULL;
        if (found) assert_int_equal(found - whatif.rows, best - question.lone);
    }
    assert_true(answered > 2 && refused > 0);
}

static void the_most_tokens_are_what_brute_force_finds(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 0, &question);
    for (int limits = 1; limits < 4; limits++) {
        struct whatif whatif;
        const struct whatif_question asked = {.deadline_s = limits & 1 ? 30 * 86400.0 : 0,
                                              .budget = limits & 2 ? 20000 : 0};
        answer(&question, &asked, &whatif);
        double most = 0;
        for (int i = 0; i < question.points.count; i++) {
            const struct lone *lone = &question.lone[i];
            if (!lone->fits) continue;
            double per_s = lone->tokens_per_s * lone->goodput_ratio;
            double seconds = asked.deadline_s > 0 ? asked.deadline_s : INFINITY;
            if (asked.budget > 0) {
                seconds = fmin(seconds, asked.budget / lone->price / lone->gpus * 3600);
            }
            most = fmax(most, floor(seconds * per_s));
        }
        // Whole steps, and no checkpoint behind the last one.
        const struct whatif_row *best = whatif_best(&whatif);
        double step_tokens = 64 * 4096;
        assert_true(fmod(best->tokens, step_tokens) == 0);
        assert_true(fabs(best->tokens - most) <= step_tokens + 1e-4 * most);
        assert_true(!(limits & 1) || best->time_s <= asked.deadline_s);
        assert_true(!(limits & 2) || best->money <= asked.budget);
        struct money_request run = scenario_money(&best->point->scenario, best->outcome);
        run.tokens = best->tokens;
        assert_true(money_of(&run).money.total == best->money);
    }
}

static void the_front_is_what_no_other_beats(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 50e9, &question);
    struct whatif whatif;
    answer(&question, &(struct whatif_question){.tokens = 50e9}, &whatif);
    int front = 0;
    for (int i = 0; i < whatif.row_count; i++) {
        const struct whatif_row *row = &whatif.rows[i];
        assert_int_equal(row->fits, question.lone[i].fits);
        if (!row->fits) continue;
        bool beaten = false;
        for (int k = 0; k < whatif.row_count; k++) {
            const struct whatif_row *other = &whatif.rows[k];
            beaten = beaten ||
                     (other->fits && other->time_s <= row->time_s && other->cost <= row->cost &&
                      (other->time_s < row->time_s || other->cost < row->cost));
        }
        assert_int_equal(row->is_on_front, !beaten);
        front += row->is_on_front;
    }
    assert_true(front > 0 && front < whatif.fit_count);
    assert_int_equal(whatif.front_count, front);
    assert_true(whatif.fit_count < whatif.row_count);
}

static void a_budget_needs_prices_of_one_currency(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 0, &question);
    struct scenario_outcome *outcomes = question.outcomes;
    struct whatif whatif;
    struct err err = {0};
    struct cluster last = *question.points.items[7].scenario.cluster;
    question.points.items[7].scenario.cluster = &last;
    last.price.currency = "CNY";
    const struct whatif_question asked = {.budget = 1};
    assert_false(whatif_make(arena, &asked, &question.sweep, &question.request, &question.points,
                             outcomes, &whatif, &err));
    assert_string_equal(err.text, "prices in CNY (cluster dgx-h100) and in USD cannot be compared; "
                                  "--currency-rate CNY=N says what one CNY is worth");
    last.price.per_gpu_hour = 0;
    err = (struct err){0};
    assert_false(whatif_make(arena, &asked, &question.sweep, &question.request, &question.points,
                             outcomes, &whatif, &err));
    assert_string_equal(err.text, "cluster dgx-h100 has no price to hold against a budget; "
                                  "--price-per-gpu-hour gives one");
}

static void the_least_gpus_are_the_first_that_fit(void **state)
{
    struct arena *arena = *state;
    struct whatif_asked question;
    make_question(arena, 0, &question);
    struct err err = {0};
    for (int c = 0; c < 2; c++) {
        const struct cluster *cluster = question.sweep.clusters[c];
        struct least_gpus found;
        const struct sweep_list any = {0};
        assert_true(least_gpus_find(arena, &question.request, &question.sweep, cluster, &any, 64,
                                    &found, &err));
        int least = 0;
        for (int gpus = 1; gpus <= 8 && least == 0; gpus++) {
            struct scenario scenario = question.points.items[0].scenario;
            scenario.cluster = sweep_cluster(arena, cluster, gpus, &err);
            if (ask_alone(&question, &scenario).fits) least = gpus;
        }
        assert_true(least > 1);
        assert_int_equal(found.cluster->rank_count, least);
        double sizes[] = {1, least + 1, least + 3};
        const struct sweep_list list = {sizes, 3};
        assert_true(least_gpus_find(arena, &question.request, &question.sweep, cluster, &list, 64,
                                    &found, &err));
        assert_true(found.cluster->rank_count > least);
        assert_true(least_gpus_find(arena, &question.request, &question.sweep, cluster, &any,
                                    least - 1, &found, &err));
        assert_null(found.cluster);
    }
}

static void the_largest_model_is_the_last_that_fits(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct scenario_request request = request_of(arena, "gpt2");
    request.stack = stack_load(arena, "meshwright", &err);
    struct cluster *cluster = cluster_load(arena, "rtx4090-pcie8", &err);
    assert_true(cluster_take_gpus(cluster, 1, &err));
    const struct scenario scenario = {.label = "one",
                                      .cluster = cluster,
                                      .workload = {.seq_len = 1024,
                                                   .global_batch = 8,
                                                   .precision = PRECISION_BF16,
                                                   .optimizer = OPTIMIZER_ADAMW},
                                      .pins = pins_none()};
    struct largest_model found;
    assert_true(largest_model_find(arena, &request, &scenario, &found, &err));
    int last = 0;
    for (int steps = 1; steps < 20; steps++) {
        struct scenario one = scenario;
        struct scenario_outcome outcome;
        one.model = model_scaled(arena, request.model, steps, &err);
        pins_set(&one.pins, CHOICE_OFFLOAD, 0, 0);
        assert_string_equal(err.text, "");
        assert_true(scenarios_run(arena, &request, &one, 1, &outcome, &err));
        if (outcome.status != SCENARIO_FITS) break;
        last = steps;
    }
    assert_true(last > 1);
    assert_int_equal(found.tiers[CAPACITY_GPU].steps, last);
    double least = found.tiers[CAPACITY_GPU].parameter_count;
    // Parameters, states, gradients and activations leave.
    assert_true(found.tiers[CAPACITY_HOST].parameter_count > 20 * least);
    assert_non_null(strstr(found.tiers[CAPACITY_HOST].offload, "parameters,gradients"));
    assert_true(found.tiers[CAPACITY_NVME].parameter_count >=
                found.tiers[CAPACITY_HOST].parameter_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_in_time_is_what_brute_force_finds),
        cmocka_unit_test(the_fastest_for_the_money_is_what_brute_force_finds),
        cmocka_unit_test(the_most_tokens_are_what_brute_force_finds),
        cmocka_unit_test(the_front_is_what_no_other_beats),
        cmocka_unit_test(a_budget_needs_prices_of_one_currency),
        cmocka_unit_test(the_least_gpus_are_the_first_that_fit),
        cmocka_unit_test(the_largest_model_is_the_last_that_fits),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
