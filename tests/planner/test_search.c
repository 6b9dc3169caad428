#include "tests/support/checker.h"
#include "tests/support/draw.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "planner/batch.h"
#include "planner/compose.h"
#include "planner/scan.h"
#include "reports/table/plan_json.h"
#include "simulator/closed_form.h"

#include <math.h>
#include <stdio.h>

static struct search_request shipped(struct arena *arena, const char *model, const char *cluster,
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

static void check_plan(struct arena *arena, const struct search_request *request,
                       const struct search_result *result, const struct candidate *candidate)
{
    struct evaluation_request question = {.model = request->model,
                                          .cluster = request->cluster,
                                          .stack = request->stack,
                                          .fabrics = request->fabrics,
                                          .workload = request->workload,
                                          .parallel = candidate->parallel};
    struct evaluation evaluation = {0};
    struct arena scratch = {0};
    struct err err = {0};
    bool ok = evaluate(arena, &scratch, &question, &evaluation, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(ok);
    struct plan_document document = {
        .request = &question, .evaluation = &evaluation, .search = result, .version = "test"};
    struct checker_result judged = checker_check(plan_document_text(arena, &document));
    assert_string_equal(judged.text, "");
    assert_int_equal(judged.violation_count, 0);
}

static bool same_plan(const struct candidate *a, const struct candidate *b)
{
    return candidate_compare(OBJECTIVE_TIME, a, b) == 0 && a->simulated == b->simulated &&
           step_ns(a->closed_form_s) == step_ns(b->closed_form_s);
}

// Kinds of plans that were among the best, so that none is left out unseen.
struct kinds {
    int experts, contexts, zero_bubble;
};

static void note_kinds(struct kinds *kinds, const struct parallel *parallel)
{
    kinds->experts += parallel->degree[AXIS_EP] > 1;
    kinds->contexts += parallel->degree[AXIS_CP] > 1;
    kinds->zero_bubble += parallel->schedule >= SCHEDULE_ZB_H1;
}

static void pruned_and_exhaustive_search_find_the_same_plans(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 20;
    struct draw draw = draw_start("pruned against exhaustive", 6);
    int fitting = 0;
    struct kinds kinds = {0};
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.objective = i % 5 == 4 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
        struct search_result pruned = {0}, whole = {0};
        struct err err_pruned = {0}, err_whole = {0};
        bool ok = search_plans(&arena, &request, &pruned, &err_pruned);
        request.exhaustive = true;
        assert_int_equal(ok, search_plans(&arena, &request, &whole, &err_whole));
        assert_string_equal(err_pruned.text, err_whole.text);
        assert_int_equal(pruned.status, whole.status);
        assert_int_equal(pruned.best_count, whole.best_count);
        assert_true(pruned.considered_count == whole.considered_count);
        for (int k = 0; k < pruned.best_count; k++) {
            assert_true(same_plan(&pruned.best[k], &whole.best[k]));
            note_kinds(&kinds, &pruned.best[k].parallel);
        }
        fitting += pruned.best_count > 0;
        arena_free(&arena);
    }
    assert_in_range(fitting, cases / 3, cases);
    assert_true(kinds.experts > 0 && kinds.contexts > 0 && kinds.zero_bubble > 0);
}

static void every_plan_passes_the_independent_checker(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 20;
    struct draw draw = draw_start("checker", 7);
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        struct search_result result = {0};
        struct err err = {0};
        if (search_plans(&arena, &request, &result, &err)) {
            int64_t limit_bytes = cluster_device_bytes(request.cluster);
            for (int k = 0; k < result.best_count; k++) {
                check_plan(&arena, &request, &result, &result.best[k]);
                assert_true(result.best[k].memory.reserved_bytes <= limit_bytes);
            }
            if (result.status == SEARCH_NOTHING_FITS) {
                check_plan(&arena, &request, &result, &result.closest);
                assert_true(result.shortfall_bytes > 0);
                assert_in_range(result.remedy_count, 1, 6);
            }
        }
        arena_free(&arena);
    }
}

// What the search composes of memoised blocks, asked of every plan of a space and of the whole
// program lowered anew.
static void check_composed(struct arena *arena, const struct search_request *request, int step)
{
    struct arena scratch = {0};
    struct memo *memo = memo_new(arena, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(arena, request, &graphs);
    struct composer *composer = composer_new(arena, &scratch, memo);
    int number = 0;
    for (int g = 0; g < space->group_count; g++) {
        const struct space_group *group = &space->groups[g];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        for (int i = 0; i < tails->count; i++) {
            const struct space_tail *tail = &tails->tails[i];
            if (number++ % step != 0) continue;
            const struct space_recompute *recompute =
                &tail->recomputes[number % tail->recompute_count];
            struct parallel parallel =
                space_parallel(space, group, tail, recompute, recompute->layers_low);
            composer_group(composer, &parallel);
            struct arena_mark mark = arena_mark(&scratch);
            const struct graph *graph =
                evaluation_graph(&scratch, request->model, request->stack, &parallel);
            struct program *program =
                program_lower(&scratch, graph, request->cluster, &request->workload, &parallel,
                              stack_joins(request->stack));
            struct cost whole = closed_form(step_price(&scratch, memo_context(memo), program));
            int stage = -1, worst = -1;
            struct memory_parts memory = memory_worst(program, request->stack, &stage);
            struct memory_parts composed = composer_memory(composer, &parallel, &worst);
            arena_reset(&scratch, mark);
            struct cost cost = composer_cost(composer, &parallel);
            assert_true(fabs(cost.step_s - whole.step_s) <= 1e-9 * whole.step_s);
            assert_true(composed.reserved_bytes == memory.reserved_bytes);
            assert_true(composer_bound(composer, &parallel) <= cost.step_s * (1 + 1e-12));
        }
    }
    arena_free(&scratch);
}

static void composed_prices_and_memory_are_those_of_the_whole_program(void **state)
{
    (void)state;
    struct draw draw = draw_start("composed", 11);
    for (int i = 0; i < 12; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        struct stack any = *request.stack;
        if (any.schedules) any.schedules = (1u << SCHEDULE_KIND_COUNT) - 1;
        any.accumulates_whole = i % 2 == 0;
        any.zero_stages = any.zero_stages_with_pipeline = (1u << 4) - 1;
        request.stack = &any;
        check_composed(&arena, &request, 37);
        arena_free(&arena);
    }
}

// With casts of weights that are kept, and beside frozen weights, the end of a step is not the same
// whatever is recomputed.
static void the_end_of_a_step_is_that_of_what_is_recomputed(void **state)
{
    struct err err = {0};
    struct search_request casts = shipped(*state, "gpt2", "dgx-h100", 4096, 64);
    casts.stack = stack_load(*state, "meshwright", &err);
    casts.workload.precision = PRECISION_FP8;
    check_composed(*state, &casts, 29);
    struct search_request adapters = shipped(*state, "gpt2", "dgx-h100", 4096, 64);
    adapters.stack = stack_load(*state, "fsdp2", &err);
    int64_t lora = adapters_value((struct adapters){8, ADAPTERS_ALL});
    pins_set(&adapters.pins, CHOICE_LORA, lora, lora);
    check_composed(*state, &adapters, 29);
    // The decoder's embedding has no gradient at all.
    adapters.model = shipped(*state, "bart-large", "dgx-h100", 512, 64).model;
    check_composed(*state, &adapters, 29);
    // Buckets of whole blocks, where dense layers and those of experts take turns.
    struct search_request turns = shipped(*state, "switch-base-8", "dgx-h100", 512, 64);
    turns.workload.unclipped = true;
    check_composed(*state, &turns, 29);
    assert_string_equal(err.text, "");
}

// The pattern holds 2p - 1 micro-batches, what is searched under a limit 2p.
static void a_stack_that_searches_zero_bubble_holds_up_to_its_limit(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    struct err err = {0};
    struct stack any = *stack_load(arena, "megatron-zero-bubble", &err);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_ZB_H2, SCHEDULE_ZB_H2);
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    for (int searched = 0; searched < 2; searched++) {
        any.searched_zero_bubble = searched == 1;
        request.stack = &any;
        struct search_result result = {0};
        assert_true(search_plans(arena, &request, &result, &err) && result.best_count > 0);
        assert_int_equal(result.best[0].parallel.in_flight, searched ? 8 : 0);
        check_plan(arena, &request, &result, &result.best[0]);
    }
}

// A stage between equal ones can need the most under zb-v, and a shard group gives ZeRO a mesh of
// its own, which bounds must not take for the other.
static void inner_stages_and_shard_groups_are_asked(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-6.7b", "dgx-a100-80g-x7", 2048, 56);
    struct stack any = *request.stack;
    any.schedules = (1u << SCHEDULE_KIND_COUNT) - 1;
    request.stack = &any;
    request.pins.schedule = SCHEDULE_ZB_V;
    pins_set(&request.pins, CHOICE_PP, 7, 7);
    check_composed(arena, &request, 1);

    request = shipped(arena, "gpt3-6.7b", "dgx-a100-80g-x8", 2048, 64);
    request.objective = OBJECTIVE_MEMORY;
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    pins_set(&request.pins, CHOICE_ZERO_GROUP, 4, 4);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
    for (int i = 0; i < result.best_count; i++)
        assert_int_equal(result.best[i].parallel.zero_group, 4);
}

static void equal_requests_give_equal_plans(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    struct search_result first = {0}, second = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &first, &err));
    assert_true(search_plans(arena, &request, &second, &err));
    assert_int_equal(first.best_count, 5);
    for (int i = 0; i < first.best_count; i++) {
        assert_true(same_plan(&first.best[i], &second.best[i]));
        assert_true(first.best[i].cost.step_s == second.best[i].cost.step_s);
        if (i == 0) continue;
        assert_true(candidate_compare(OBJECTIVE_TIME, &first.best[i - 1], &first.best[i]) < 0);
    }
    assert_true(first.considered_count == second.considered_count);
    assert_true(first.priced_count == second.priced_count);
}

static void optimal_is_said_only_with_a_certificate(void **state)
{
    (void)state;
    struct draw draw = draw_start("certificate", 5);
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        struct search_result result = {0};
        struct err err = {0};
        if (search_plans(&arena, &request, &result, &err) && result.best_count > 0) {
            int64_t best_ns = step_ns(result.best[0].closed_form_s);
            int64_t bound_ns = step_ns(result.bound_s);
            assert_true(bound_ns <= best_ns);
            assert_int_equal(result.status == SEARCH_FEASIBLE, bound_ns < best_ns);
            bool certain = bound_ns == best_ns;
            bool optimal = certain && result.cut_count == 0;
            assert_int_equal(result.status == SEARCH_OPTIMAL, optimal);
        }
        arena_free(&arena);
    }
}

static void the_smallest_plan_is_no_larger_than_the_fastest(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "llama-2-7b", "dgx-a100-80g", 2048, 64);
    struct search_result fastest = {0}, smallest = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &fastest, &err));
    request.objective = OBJECTIVE_MEMORY;
    assert_true(search_plans(arena, &request, &smallest, &err));
    assert_int_equal(smallest.status, SEARCH_BEST_OF);
    assert_true(smallest.best[0].memory.reserved_bytes < fastest.best[0].memory.reserved_bytes);
    assert_true(smallest.best[0].cost.step_s >= fastest.best[0].cost.step_s);
    assert_true(smallest.bound_s <= fastest.best[0].closed_form_s);
}

static void what_does_not_fit_says_what_would(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-175b", "dgx-a100-80g", 2048, 64);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_int_equal(result.status, SEARCH_NOTHING_FITS);
    assert_int_equal(result.best_count, 0);
    assert_true(result.closest.memory.reserved_bytes - result.shortfall_bytes ==
                cluster_device_bytes(request.cluster));
    assert_int_equal(result.remedy_count, 2);
    assert_non_null(strstr(result.remedies[0], "GPUs (--nodes "));
    assert_non_null(strstr(result.remedies[1], "devices with "));
}

static void a_pin_that_keeps_a_plan_from_fitting_is_named_with_its_price(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "llama-2-7b", "dgx-a100-80g", 4096, 64);
    request.stack = stack_load(arena, "meshwright", &(struct err){0});
    pins_set(&request.pins, CHOICE_DP, 8, 8);
    pins_set(&request.pins, CHOICE_ZERO, 0, 0);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_int_equal(result.status, SEARCH_NOTHING_FITS);
    assert_int_equal(result.closest.parallel.zero, 0);
    assert_int_equal(result.closest.parallel.degree[AXIS_DP], 8);
    assert_memory_equal(result.remedies[0], "--zero ", 7);
    assert_non_null(strstr(result.remedies[0], "% time)"));
    // The named change, pinned, is a plan that fits.
    int64_t zero = result.remedies[0][7] - '0';
    pins_set(&request.pins, CHOICE_ZERO, zero, zero);
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
}

static void a_batch_past_what_the_optimizer_bears_is_warned_about(void **state)
{
    struct arena *arena = *state;
    struct workload workload = {
        .seq_len = 2048, .global_batch = 8000, .optimizer = OPTIMIZER_ADAMW};
    assert_null(batch_warning(arena, &workload));
    workload.global_batch = 8001;
    assert_non_null(strstr(batch_warning(arena, &workload), "--optimizer lamb"));
    workload.optimizer = OPTIMIZER_LAMB;
    assert_null(batch_warning(arena, &workload));
    workload.global_batch = 32769;
    assert_non_null(batch_warning(arena, &workload));
}

// The table of 100 epochs of ImageNet's 1.28 M pictures that large-batch work begins with.
static void batches_make_iterations(void **state)
{
    static const struct {
        int64_t batch, iterations;
    } KNOWN[] = {{512, 250000}, {1024, 125000}, {2048, 62500},
                 {4096, 31250}, {8192, 15625},  {1280000, 100}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        assert_int_equal(batch_iterations(1.28e6, 100, KNOWN[i].batch), KNOWN[i].iterations);
    assert_int_equal(batch_iterations(10, 1, 4), 3);
    struct workload workload = {.global_batch = 4096, .optimizer = OPTIMIZER_SGD};
    const char *table = batch_table(*state, &workload, 1.28e6, 100);
    assert_non_null(strstr(table, "4,096   31,250  this"));
    assert_non_null(strstr(table, "8,192   15,625        past what sgd is known to bear"));
}

static void a_larger_micro_batch_takes_hardly_more_time_a_sequence(void **state)
{
    (void)state;
    struct draw draw = draw_start("families", 23);
    int pairs[2] = {0, 0};
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0}, scratch = {0};
        struct search_request request = random_search(&arena, &draw);
        struct memo *memo = memo_new(&arena, &scratch, &request);
        struct space_graphs graphs = {memo_graph_of, memo};
        struct space *space = space_make(&arena, &request, &graphs);
        struct composer *composer = composer_new(&arena, &scratch, memo);
        double least_s[1 + BOUND_OTHERS_MAX];  // by kind of layer
        for (int g = 0; g < space->group_count; g++) {
            const struct space_group *group = &space->groups[g];
            const struct space_tails *tails = space_tails(space, &graphs, group);
            bool new_family = g == 0 || group->micro_batch <= group[-1].micro_batch;
            for (int k = 0; new_family && k <= BOUND_OTHERS_MAX; k++)
                least_s[k] = INFINITY;
            if (tails->count == 0) continue;
            const struct graph *graph =
                memo_graph(memo, group->attention, space->meshes[group->mesh].degree[AXIS_TP]);
            struct bound_facts facts = bound_facts(graph, request.workload.seq_len);
            struct parallel parallel = space_first(space, group, &tails->tails[0]);
            composer_group(composer, &parallel);
            for (int k = 0; k <= facts.other_count; k++) {
                int kind = k == 0 ? facts.probe_kind : facts.others[k - 1].kind;
                double sequence_s =
                    composer_probe(composer, &parallel, kind).work.all_s / group->micro_batch;
                assert_true(SCAN_LAST_WAVE_RATIO * sequence_s <= least_s[k]);
                pairs[k > 0] += !isinf(least_s[k]);
                least_s[k] = fmin(least_s[k], sequence_s);
            }
        }
        arena_free(&scratch);
        arena_free(&arena);
    }
    assert_true(pairs[0] > 200 && pairs[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_make_iterations),
        cmocka_unit_test(pruned_and_exhaustive_search_find_the_same_plans),
        cmocka_unit_test(every_plan_passes_the_independent_checker),
        cmocka_unit_test(composed_prices_and_memory_are_those_of_the_whole_program),
        cmocka_unit_test(the_end_of_a_step_is_that_of_what_is_recomputed),
        cmocka_unit_test(a_stack_that_searches_zero_bubble_holds_up_to_its_limit),
        cmocka_unit_test(inner_stages_and_shard_groups_are_asked),
        cmocka_unit_test(equal_requests_give_equal_plans),
        cmocka_unit_test(optimal_is_said_only_with_a_certificate),
        cmocka_unit_test(the_smallest_plan_is_no_larger_than_the_fastest),
        cmocka_unit_test(what_does_not_fit_says_what_would),
        cmocka_unit_test(a_pin_that_keeps_a_plan_from_fitting_is_named_with_its_price),
        cmocka_unit_test(a_batch_past_what_the_optimizer_bears_is_warned_about),
        cmocka_unit_test(a_larger_micro_batch_takes_hardly_more_time_a_sequence),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
