#include "planner/idle.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "core/units.h"
#include "cost_models/money.h"
#include "planner/choice.h"
#include "planner/ranking.h"
#include "reports/table/idle_text.h"
#include "topologies/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// GPUs left idle: against every count of GPUs searched alone, one node more against one less, and
// what is said and written of it.

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        int64_t seq_len, int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 5};
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.cluster = cluster_load(arena, cluster, &err);
    request.stack = stack_load(arena, "megatron-core", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = seq_len,
                                         .global_batch = global_batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

// The step of the best plan on so many GPUs and no others; INFINITY: there is none.
static double step_on(const struct search_request *request, const char *name, int gpus)
{
    struct arena arena = {0};
    struct err err = {0};
    struct search_result result = {0};
    struct search_request fewer = *request;
    struct cluster *cluster = cluster_load(&arena, name, &err);
    assert_true(cluster && cluster_take_gpus(cluster, gpus, &err));
    fewer.cluster = cluster;
    fewer.nothing = SEARCH_FITS_ONLY;
    bool found = search_plans(&arena, &fewer, &result, &err) && result.best_count > 0;
    double step_s = found ? result.best[0].cost.step_s : INFINITY;
    arena_free(&arena);
    return step_s;
}

static void check_all_counts(const char *model, const char *cluster, int64_t seq_len,
                             int64_t global_batch, enum precision precision)
{
    struct arena arena = {0};
    struct err err = {0};
    struct search_request request = request_of(&arena, model, cluster, seq_len, global_batch);
    request.workload.precision = precision;
    struct idle_answer answer;
    struct search_result result = {0};
    double least_s = INFINITY;
    int least = 0, all = request.cluster->rank_count;
    for (int gpus = all; gpus > 0; gpus--) {
        double step_s = step_on(&request, cluster, gpus);
        if (step_s < INFINITY && (least == 0 || step_ns(step_s) < step_ns(least_s))) {
            least_s = step_s;
            least = gpus;
        }
    }
    bool done = idle_search(&arena, &request, &answer, &result, &err);
    printf("# %s %s %lld: %d of %d\n", model, cluster, (long long)global_batch, least, all);
    assert_int_equal(done && result.best_count > 0, least > 0);
    if (least > 0) {
        assert_int_equal(answer.cluster->rank_count, least);
        assert_true(result.best[0].cost.step_s == least_s);
        assert_int_equal(answer.cluster->idle_gpus, all - least);
        assert_int_equal(cluster_rented_count(answer.cluster), all);
        double all_s = step_on(&request, cluster, all);
        assert_true(answer.all_s == (all_s < INFINITY ? all_s : 0));
    }
    arena_free(&arena);
}

static void the_fastest_count_is_that_of_all_counts_searched_alone(void **state)
{
    (void)state;
    check_all_counts("gpt2", "dgx-h100", 1024, 6, PRECISION_BF16);
    check_all_counts("gpt2", "dgx-h100", 1024, 7, PRECISION_BF16);
    check_all_counts("gpt2", "dgx-a100-80g-x3", 1024, 64, PRECISION_BF16);
    check_all_counts("opt-1.3b", "dgx-h100-x2", 2048, 10, PRECISION_BF16);
}

static void drawn_questions_agree_as_well(void **state)
{
    static const char *const MODELS[] = {"gpt2", "opt-1.3b", "llama-3-8b", "qwen1.5-moe-a2.7b"};
    static const char *const CLUSTERS[] = {"dgx-a100-80g", "dgx-h100", "l40s-pcie8", "dgx-v100"};
    static const enum precision PRECISIONS[] = {PRECISION_BF16, PRECISION_FP16, PRECISION_FP32};
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 2;
    struct draw draw = draw_start("counts", 20261123);
    for (int i = 0; i < cases; i++) {
        char cluster[64];
        const char *model = DRAW_ONE(&draw, MODELS), *nodes = DRAW_ONE(&draw, CLUSTERS);
        snprintf(cluster, sizeof cluster, "%s-x%d", nodes, draw_int(&draw, 1, 3));
        enum precision precision = DRAW_ONE(&draw, PRECISIONS);
        bool is_old = strcmp(nodes, "dgx-v100") == 0;
        if (is_old && precision == PRECISION_BF16) precision = PRECISION_FP16;
        int seq_len = 256 << draw_int(&draw, 0, 2);
        check_all_counts(model, cluster, seq_len, draw_int(&draw, 1, 80), precision);
    }
}

static void one_node_more_is_never_slower(void **state)
{
    static const char *const MODELS[] = {"gpt2", "opt-1.3b", "llama-3-8b"};
    static const char *const CLUSTERS[] = {"dgx-a100-80g", "dgx-h100", "l40s-pcie8"};
    (void)state;
    struct draw draw = draw_start("one node more", 4);
    int helped = 0;
    for (int i = 0; i < 6; i++) {
        struct arena arena = {0};
        const char *model = DRAW_ONE(&draw, MODELS);
        const char *cluster = DRAW_ONE(&draw, CLUSTERS);
        int nodes = draw_int(&draw, 1, 4), batch = draw_int(&draw, 4, 96);
        double before_s = INFINITY;
        for (int more = 0; more < 2; more++) {
            const char *name = arena_print(&arena, "%s-x%d", cluster, nodes + more);
            struct search_request request = request_of(&arena, model, name, 1024, batch);
            struct idle_answer answer;
            struct search_result result = {0};
            struct err err = {0};
            bool done = idle_search(&arena, &request, &answer, &result, &err);
            double step_s = done && result.best_count > 0 ? result.best[0].cost.step_s : INFINITY;
            if (step_s > before_s) printf("# %s on %s, batch %d\n", model, name, batch);
            assert_true(step_s <= before_s);
            before_s = step_s;
            helped += answer.cluster->idle_gpus > 0;
        }
        arena_free(&arena);
    }
    printf("# idle GPUs in %d of 12 answers\n", helped);
    assert_true(helped > 1);
}

// Pins stay: a layout of 6 GPUs on 8.
static void a_pinned_layout_is_answered_on_as_many_as_it_has(void **state)
{
    struct search_request request = request_of(*state, "gpt2", "dgx-h100", 1024, 6);
    struct idle_answer answer;
    struct search_result result = {0};
    struct err err = {0};
    pins_set(&request.pins, CHOICE_DP, 3, 3);
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    pins_set(&request.pins, CHOICE_CP, 1, 1);
    assert_false(search_plans(*state, &request, &result, &err));
    struct idle_hint hint = idle_hint(&request, INFINITY);
    assert_int_equal(hint.gpus, 6);
    assert_string_equal(idle_hint_text(*state, &request, &hint, INFINITY),
                        arena_print(*state,
                                    "6 of the 8 GPUs have a plan that fits, of %s a step: --idle "
                                    "ok leaves 2 idle",
                                    units_seconds(*state, hint.step_s)));
    err = (struct err){0};
    assert_true(idle_search(*state, &request, &answer, &result, &err));
    assert_int_equal(answer.cluster->rank_count, 6);
    assert_true(answer.all_s == 0);
    assert_string_equal(idle_answer_text(*state, &request, &answer, &result),
                        arena_print(*state,
                                    "Idle: 2 of 8 GPUs; 6 take %s, and all 8 have no plan that "
                                    "fits\n      GPU-hours and money count all 8, MFU and tokens/s "
                                    "per GPU those in use\n",
                                    units_seconds(*state, result.best[0].cost.step_s)));
    // Where no count has a plan the error is that of all GPUs.
    pins_set(&request.pins, CHOICE_DP, 5, 5);
    assert_false(idle_search(*state, &request, &answer, &result, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_int_equal(idle_hint(&request, INFINITY).gpus, 0);
    // Nor where no count could have one: adapters beside the delta rule.
    request = request_of(*state, "qwen3.5-9b", "dgx-h100", 2048, 64);
    request.cluster = idle_cluster(*state, request.cluster, 3);
    int64_t lora = adapters_value((struct adapters){8, ADAPTERS_ALL});
    pins_set(&request.pins, CHOICE_LORA, lora, lora);
    assert_int_equal(idle_hint(&request, INFINITY).gpus, 0);
}

static void a_hint_is_true_and_not_given_of_good_counts(void **state)
{
    struct err err = {0};
    struct search_result result = {0};
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g-x9", 1024, 512);
    assert_true(search_plans(*state, &request, &result, &err));
    struct idle_hint hint = idle_hint(&request, result.best[0].closed_form_s);
    assert_int_equal(hint.gpus, 64);
    assert_true(hint.step_s < 0.99 * result.best[0].closed_form_s);
    double step_s = step_on(&request, "dgx-a100-80g-x9", 64);
    assert_true(fabs(step_s / hint.step_s - 1) < 0.02);
    struct search_request good = request_of(*state, "gpt2", "dgx-a100-80g-x8", 1024, 512);
    assert_true(search_plans(*state, &good, &result, &err));
    assert_int_equal(idle_hint(&good, result.best[0].closed_form_s).gpus, 0);
}

static struct money money_on(const struct cluster *cluster)
{
    const struct money_request request = {
        .cluster = cluster, .step_s = 1, .step_tokens = 1e6, .tokens = 1e12};
    return money_of(&request).money;
}

// Rented and not used: it costs, is written and read, and goes where the cluster is cut anew.
static void idle_gpus_cost_money_and_are_kept(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-h100-x2", &err);
    cluster->price = (struct price){.per_gpu_hour = 2, .currency = "USD"};
    struct cluster used = *cluster;
    struct node_group group = cluster->nodes[0];
    used.nodes = &group;
    assert_true(cluster_take_gpus(&used, 12, &err));
    struct money without = money_on(&used);
    used.idle_gpus = 4;
    struct money with = money_on(&used), all = money_on(cluster);
    assert_true(with.total == all.total && with.gpu_hours == all.gpu_hours);
    assert_true(fabs(without.total / with.total - 0.75) < 1e-12);
    struct json_writer writer = {.arena = *state};
    cluster_write(&writer, NULL, &used);
    struct json_document document;
    assert_true(json_parse(*state, "x", writer.text, strlen(writer.text), &document, &err));
    struct json root = json_root(&document);
    struct cluster *read = cluster_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(read->rank_count, 12);
    assert_int_equal(read->idle_gpus, 4);
    assert_true(cluster_take_gpus(read, 8, &err));
    assert_int_equal(read->idle_gpus, 0);
}

static void a_stopped_search_is_the_best_of_what_was_searched(void **state)
{
    atomic_bool stop = true;
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g-x9", 1024, 512);
    struct idle_answer answer;
    struct search_result result = {0};
    struct err err = {0};
    request.stop = &stop;
    assert_true(idle_search(*state, &request, &answer, &result, &err));
    assert_int_equal(result.status, SEARCH_STOPPED);
    assert_int_equal(result.best_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_count_is_that_of_all_counts_searched_alone),
        cmocka_unit_test(drawn_questions_agree_as_well),
        cmocka_unit_test(one_node_more_is_never_slower),
        cmocka_unit_test(a_pinned_layout_is_answered_on_as_many_as_it_has),
        cmocka_unit_test(a_hint_is_true_and_not_given_of_good_counts),
        cmocka_unit_test(idle_gpus_cost_money_and_are_kept),
        cmocka_unit_test(a_stopped_search_is_the_best_of_what_was_searched),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
