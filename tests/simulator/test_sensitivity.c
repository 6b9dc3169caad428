#include "tests/support/draw.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "planner/rivals.h"
#include "reports/table/explain_table.h"

#include <math.h>

enum { SEARCHES = 12, SEED = 20261121 };

// One layer of products so wide that nothing else counts, on one GPU.
static const char ONE_PRODUCT[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 8192, "
    "\"num_attention_heads\": 64, \"num_key_value_heads\": 64, \"vocab_size\": 128, "
    "\"intermediate_size\": 262144}";

static const struct model_config *model_of(struct arena *arena, const char *text)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    struct err err = {0};
    assert_true(json_parse(arena, "given.json", text, strlen(text), document, &err));
    *root = json_root(document);
    const struct model_config *model = model_read(arena, "given", root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model;
}

static struct evaluation_request request_of(struct arena *arena, const struct model_config *model,
                                            const char *cluster, int tp, int pp, int dp)
{
    struct err err = {0};
    struct cluster *of = cluster_load(arena, cluster, &err);
    assert_true(of && cluster_take_gpus(of, tp * pp * dp, &err));
    struct evaluation_request request = {
        .model = model,
        .cluster = of,
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 2048, .global_batch = 16 * dp, .precision = PRECISION_BF16},
        .parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                     .vpp = 1,
                     .micro_batch = 1,
                     .sp = tp > 1,
                     .zero = 1,
                     .recompute_layers = -1,
                     .schedule = SCHEDULE_1F1B},
    };
    assert_string_equal(err.text, "");
    request.parallel.degree[AXIS_TP] = tp;
    request.parallel.degree[AXIS_PP] = pp;
    request.parallel.degree[AXIS_DP] = dp;
    request.parallel.passes = request.stack->passes;
    request.parallel.overlap = request.stack->overlap_default;
    parallel_default_order(&request.parallel);
    return request;
}

static struct evaluation_request shipped(struct arena *arena, const char *model, int tp, int pp,
                                         int dp)
{
    struct err err = {0};
    const struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return request_of(arena, config, "dgx-a100-80g-x4", tp, pp, dp);
}

static double step_of(struct arena *arena, const struct evaluation_request *request)
{
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    struct arena_mark mark = arena_mark(arena);
    assert_true(evaluate(arena, &scratch, request, &evaluation, &err));
    double step_s = evaluation.prediction.step_s;
    arena_free(&scratch);
    arena_reset(arena, mark);
    return step_s;
}

static struct sensitivity sensitivity_of(struct arena *arena,
                                         const struct evaluation_request *request)
{
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    assert_true(evaluate(arena, &scratch, request, &evaluation, &err));
    struct sensitivity all = sensitivity_make(arena, &scratch, request, &evaluation);
    arena_free(&scratch);
    return all;
}

static const struct sensitivity_row *row_of(const struct sensitivity *all, const char *key)
{
    for (int i = 0; i < all->count; i++) {
        if (strcmp(all->rows[i].constant->key, key) == 0) return &all->rows[i];
    }
    return NULL;
}

// A tenth faster products: the whole step is 1 / 1.1 of itself, less what is not products.
static void a_step_of_products_alone_hangs_on_their_rate_alone(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request =
        request_of(arena, model_of(arena, ONE_PRODUCT), "dgx-a100-80g", 1, 1, 1);
    request.workload.seq_len = 8192;
    struct sensitivity all = sensitivity_of(arena, &request);
    const struct sensitivity_row *gemm = row_of(&all, "efficiency.gemm_ratio.bf16");
    assert_non_null(gemm);
    assert_true(gemm->elasticity < -0.9 && gemm->elasticity >= -1);
    assert_true(row_of(&all, "peak_flop_per_s.bf16")->elasticity <= gemm->elasticity);
    double other_s = all.step_s * (1 + gemm->elasticity);
    assert_true(fabs(gemm->more_s + (all.step_s - other_s) / 11) < 1e-3 * all.step_s);
    assert_true(fabs(gemm->less_s - (all.step_s - other_s) / 9) < 1e-3 * all.step_s);
}

// What makes a device faster makes no step of 1F1B longer; what takes time makes none shorter.
static void faster_devices_make_no_longer_steps(void **state)
{
    static const char *const FASTER[] = {
        "peak_flop_per_s.bf16",
        "efficiency.gemm_ratio.bf16",
        "efficiency.attention_forward_ratio",
        "efficiency.attention_backward_ratio",
        "efficiency.memory_ratio",
        "memory_bandwidth_bytes_per_s",
        "gemm_scale",
    };
    static const char *const SLOWER[] = {"launch_latency_s", "efficiency.gemm_k_ramp",
                                         "element_wise_scale", "host_op_s", "step_overhead_s"};
    static const int DEGREES[][3] = {{1, 1, 8}, {2, 4, 2}, {8, 1, 2}, {4, 2, 4}, {1, 8, 1}};
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof DEGREES / sizeof *DEGREES; i++) {
        struct evaluation_request request =
            shipped(arena, "llama-2-13b", DEGREES[i][0], DEGREES[i][1], DEGREES[i][2]);
        struct sensitivity all = sensitivity_of(arena, &request);
        double slack_s = 1e-6 * all.step_s;
        for (size_t k = 0; k < sizeof FASTER / sizeof *FASTER; k++) {
            const struct sensitivity_row *row = row_of(&all, FASTER[k]);
            assert_non_null(row);
            assert_true(row->elasticity < 0 && row->more_s < slack_s && row->less_s > -slack_s);
        }
        for (size_t k = 0; k < sizeof SLOWER / sizeof *SLOWER; k++) {
            const struct sensitivity_row *row = row_of(&all, SLOWER[k]);
            if (!row) continue;
            assert_true(row->elasticity > 0 && row->more_s > -slack_s && row->less_s < slack_s);
        }
    }
}

// The request with one constant of its own at this ratio, by other means than the list.
static struct evaluation_request changed(struct arena *arena,
                                         const struct evaluation_request *request,
                                         const struct constant *constant, double ratio)
{
    struct evaluation_request other = *request;
    struct price_context context = evaluation_context(request);
    struct device *device = device_copy(arena, context.compute.device);
    struct stack *stack = stack_copy(arena, request->stack);
    struct fabrics *fabrics = fabrics_copy(arena, request->fabrics);
    struct constant_list list = constants_list(arena, device, stack, fabrics);
    struct constant *own =
        constants_find(&list, constant->owner, constant->owner_name, constant->key);
    *own->value = fmin(own->high, fmax(own->low, *own->value * ratio));
    other.cluster = cluster_with_device(arena, request->cluster, device);
    other.stack = stack;
    other.fabrics = fabrics;
    return other;
}

static void is_same_s(double found_s, double wanted_s)
{
    if (fabs(found_s - wanted_s) > 2e-9)
        fail_msg("found %.12g s, wanted %.12g s", found_s, wanted_s);
}

// Every row against whole evaluations with that constant changed, and those left out by sample.
static void rows_are_what_whole_evaluations_say(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request = shipped(arena, "llama-2-7b", 2, 2, 8);
    struct sensitivity all = sensitivity_of(arena, &request);
    is_same_s(all.step_s, step_of(arena, &request));
    assert_true(all.count > 20);
    for (int i = 0; i < all.count; i++) {
        struct arena_mark mark = arena_mark(arena);
        const struct sensitivity_row *row = &all.rows[i];
        struct evaluation_request other = changed(arena, &request, row->constant, 1.1);
        is_same_s(all.step_s + row->more_s, step_of(arena, &other));
        other = changed(arena, &request, row->constant, 0.9);
        is_same_s(all.step_s + row->less_s, step_of(arena, &other));
        other = changed(arena, &request, row->constant, 1.01);
        double above_s = step_of(arena, &other);
        other = changed(arena, &request, row->constant, 0.99);
        double below_s = step_of(arena, &other);
        if (row->can_grow) {
            double value = *row->constant->value;
            double high = fmin(row->constant->high, 1.01 * value);
            double wanted = log(above_s / below_s) / log(high / (0.99 * value));
            assert_true(fabs(row->elasticity - wanted) < 1e-6);
        }
        assert_true(i == 0 || fabs(row->elasticity) <= fabs(all.rows[i - 1].elasticity));
        arena_reset(arena, mark);
    }
}

static void every_constant_is_a_row_or_left_out(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request = shipped(arena, "llama-2-7b", 2, 1, 4);
    struct bench *bench = bench_new(arena, &request);
    double *before = ARENA_NEW(arena, double, bench->constants.count);
    for (int i = 0; i < bench->constants.count; i++)
        before[i] = *bench->constants.items[i].value;
    struct sensitivity all = sensitivity_of(arena, &request);
    assert_int_equal(all.count + all.idle_count, bench->constants.count);
    assert_true(all.idle_elasticity < SENSITIVITY_LEAST * all.idle_count);
    // One node: what joins nodes does not matter, and what no device like this has even less.
    for (int i = 0; i < all.count; i++) {
        assert_null(strstr(all.rows[i].constant->owner_name, "infiniband"));
        assert_null(strstr(all.rows[i].constant->key, "fp8"));
    }
    // The request's own numbers are untouched.
    struct bench *after = bench_new(arena, &request);
    for (int i = 0; i < bench->constants.count; i++)
        assert_true(*after->constants.items[i].value == before[i]);
}

static void a_constant_at_its_limit_cannot_grow(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request = shipped(arena, "llama-2-7b", 8, 1, 1);
    struct sensitivity all = sensitivity_of(arena, &request);
    const struct sensitivity_row *row = row_of(&all, "protocols.simple.bandwidth_ratio");
    assert_non_null(row);
    assert_true(*row->constant->value == row->constant->high);
    assert_false(row->can_grow);
    assert_true(row->more_s == 0 && row->less_s > 0 && row->elasticity < 0);
}

struct found {
    int first;
    double lead_ratio;
};

static struct found first_of(struct arena *arena, const struct search_request *search,
                             const struct search_result *result, const struct constant *constant,
                             double ratio)
{
    struct found found = {0};
    double first_s = 0, best_s = INFINITY;
    for (int n = 0; n < result->best_count; n++) {
        struct arena_mark mark = arena_mark(arena);
        struct evaluation_request request = {.model = search->model,
                                             .cluster = search->cluster,
                                             .stack = search->stack,
                                             .fabrics = search->fabrics,
                                             .workload = search->workload,
                                             .parallel = result->best[n].parallel};
        struct evaluation_request other = changed(arena, &request, constant, ratio);
        double step_s = step_of(arena, &other);
        arena_reset(arena, mark);
        if (n == 0) first_s = step_s;
        if (step_s >= best_s - 0.5e-9) continue;
        best_s = step_s;
        found.first = n;
    }
    found.lead_ratio = first_s / best_s - 1;
    return found;
}

static const struct rivals_row *rival_of(const struct rivals *rivals,
                                         const struct constant *constant, double ratio)
{
    for (int i = 0; i < rivals->count; i++) {
        const struct rivals_row *row = &rivals->rows[i];
        bool is_it = row->ratio == ratio && row->constant->owner == constant->owner &&
                     strcmp(row->constant->owner_name, constant->owner_name) == 0 &&
                     strcmp(row->constant->key, constant->key) == 0;
        if (is_it) return row;
    }
    return NULL;
}

// Brute force: all kept plans evaluated anew at each changed constant of device and stack.
static void check_rivals(struct arena *arena, const struct search_request *search,
                         const struct search_result *result)
{
    struct arena scratch = {0};
    struct err err = {0};
    struct rivals rivals;
    assert_true(rivals_find(arena, &scratch, search, result, &rivals, &err));
    arena_free(&scratch);
    assert_int_equal(rivals.plan_count, result->best_count);
    const struct evaluation_request request = {.cluster = search->cluster,
                                               .stack = search->stack,
                                               .fabrics = search->fabrics,
                                               .workload = search->workload};
    const struct constant_list list = bench_new(arena, &request)->constants;
    for (int i = 0; i < list.count && list.items[i].owner != CONSTANT_FABRIC; i++) {
        for (int side = 0; side < 2; side++) {
            double ratio = side ? 0.9 : 1.1;
            struct found found = first_of(arena, search, result, &list.items[i], ratio);
            const struct rivals_row *row = rival_of(&rivals, &list.items[i], ratio);
            assert_int_equal(row != NULL, found.first > 0);
            if (!row) continue;
            assert_int_equal(row->first, found.first);
            assert_true(fabs(row->lead_ratio - found.lead_ratio) < 1e-6);
        }
    }
    for (int i = 1; i < rivals.count; i++)
        assert_true(rivals.rows[i].lead_ratio <= rivals.rows[i - 1].lead_ratio);
}

static void rivals_are_what_whole_evaluations_say(void **state)
{
    struct draw draw = draw_start("searches", SEED);
    struct arena *arena = *state;
    int checked = 0;
    for (int i = 0; i < SEARCHES; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct search_request search = random_search(arena, &draw);
        struct search_result result = {0};
        struct err err = {0};
        if (search_plans(arena, &search, &result, &err) && result.best_count > 1) {
            check_rivals(arena, &search, &result);
            checked++;
        }
        arena_reset(arena, mark);
    }
    assert_true(checked > 0);
}

// With a much slower plan in front every constant at either side puts the other first; with the
// same plan twice none does.
static void the_faster_plan_is_put_first_and_equals_stay(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct evaluation_request faster = shipped(arena, "llama-2-7b", 1, 1, 8), slower = faster;
    slower.parallel.recompute = RECOMPUTE_FULL;
    struct search_request search = {.model = faster.model,
                                    .cluster = faster.cluster,
                                    .stack = faster.stack,
                                    .fabrics = faster.fabrics,
                                    .workload = faster.workload};
    struct candidate both[] = {{.parallel = slower.parallel}, {.parallel = faster.parallel}};
    struct candidate twice[] = {{.parallel = faster.parallel}, {.parallel = faster.parallel}};
    struct search_result result = {.best = both, .best_count = 2};
    struct err err = {0};
    struct rivals rivals;
    assert_true(rivals_find(arena, &scratch, &search, &result, &rivals, &err));
    assert_int_equal(rivals.count, 2 * bench_new(arena, &faster)->constants.count);
    for (int i = 0; i < rivals.count; i++)
        assert_true(rivals.rows[i].first == 1 && rivals.rows[i].lead_ratio > 0.1);
    result.best = twice;
    assert_true(rivals_find(arena, &scratch, &search, &result, &rivals, &err));
    assert_int_equal(rivals.count, 0);
    arena_free(&scratch);
}

static void a_plan_alone_and_the_smallest_plans_have_no_rivals(void **state)
{
    struct draw draw = {SEED};
    struct arena *arena = *state, scratch = {0};
    struct search_request search = random_search(arena, &draw);
    struct search_result result = {0};
    struct err err = {0};
    struct rivals rivals;
    search.objective = OBJECTIVE_MEMORY;
    assert_true(search_plans(arena, &search, &result, &err));
    assert_true(rivals_find(arena, &scratch, &search, &result, &rivals, &err));
    assert_int_equal(rivals.count, 0);
    search.objective = OBJECTIVE_TIME;
    search.top = 1;
    assert_true(search_plans(arena, &search, &result, &err));
    assert_true(rivals_find(arena, &scratch, &search, &result, &rivals, &err));
    assert_int_equal(rivals.plan_count, 1);
    assert_int_equal(rivals.count, 0);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_products_alone_hangs_on_their_rate_alone),
        cmocka_unit_test(faster_devices_make_no_longer_steps),
        cmocka_unit_test(rows_are_what_whole_evaluations_say),
        cmocka_unit_test(every_constant_is_a_row_or_left_out),
        cmocka_unit_test(a_constant_at_its_limit_cannot_grow),
        cmocka_unit_test(rivals_are_what_whole_evaluations_say),
        cmocka_unit_test(the_faster_plan_is_put_first_and_equals_stay),
        cmocka_unit_test(a_plan_alone_and_the_smallest_plans_have_no_rivals),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
