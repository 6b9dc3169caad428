#include "tests/checker.h"
#include "tests/draw.h"
#include "tests/test.h"

#include "planner/batch.h"
#include "planner/bound.h"
#include "planner/compose.h"
#include "planner/explain.h"
#include "planner/scan.h"
#include "reports/plan_json.h"
#include "simulator/closed_form.h"

#include <math.h>
#include <stdio.h>

// A dense model, or a mixture whose first layers may be dense.
static const char *draw_config(struct arena *arena, struct draw *draw, int layers, int heads,
                               int hidden)
{
    int kv_heads = draw_int(draw, 0, 1) ? heads : heads / 2;
    const char *common =
        arena_print(arena,
                    "\"num_hidden_layers\": %d, \"hidden_size\": %d, \"num_attention_heads\": %d, "
                    "\"num_key_value_heads\": %d, \"vocab_size\": %d, "
                    "\"tie_word_embeddings\": %s",
                    layers, hidden, heads, kv_heads, draw_int(draw, 1000, 60000),
                    draw_int(draw, 0, 1) ? "true" : "false");
    switch (draw_int(draw, 0, 5)) {
    case 0:
        return arena_print(arena,
                           "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %d, "
                           "\"n_head\": %d, \"vocab_size\": 50257, \"n_positions\": 4096}",
                           layers, hidden, heads);
    case 1:
    case 2:
        return arena_print(arena,
                           "{\"model_type\": \"mixtral\", %s, \"intermediate_size\": %d, "
                           "\"num_local_experts\": %d, \"num_experts_per_tok\": 2}",
                           common, 2 * hidden, draw_int(draw, 0, 1) ? 8 : 6);
    case 3:
        return arena_print(arena,
                           "{\"model_type\": \"qwen2_moe\", %s, \"intermediate_size\": %d, "
                           "\"moe_intermediate_size\": %d, \"num_experts\": 16, "
                           "\"num_experts_per_tok\": 4, \"mlp_only_layers\": [0], "
                           "\"shared_expert_intermediate_size\": %d}",
                           common, 2 * hidden, hidden / 2, hidden);
    default:
        return arena_print(arena, "{\"model_type\": \"llama\", %s, \"intermediate_size\": %d}",
                           common, 3 * hidden);
    }
}

static const struct model_config *draw_model(struct arena *arena, struct draw *draw)
{
    static const int HEADS[] = {4, 6, 8, 12, 16}, HEAD_DIMS[] = {32, 64, 128};
    int heads = DRAW_ONE(draw, HEADS), hidden = heads * DRAW_ONE(draw, HEAD_DIMS);
    const char *text = draw_config(arena, draw, draw_int(draw, 2, 10), heads, hidden);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    struct err err = {0};
    bool ok = json_parse(arena, "drawn.json", text, strlen(text), document, &err);
    assert_true(ok);
    *root = json_root(document);
    const struct model_config *model = model_read(arena, "drawn", root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model;
}

// A few GPUs of a shipped cluster, each with so little memory that it often decides.
static const struct cluster *draw_cluster(struct arena *arena, struct draw *draw)
{
    static const char *const NAMES[] = {"dgx-v100", "dgx-a100-40g", "dgx-h100", "a100-pcie8",
                                        "rtx4090-pcie8"};
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, DRAW_ONE(draw, NAMES), &err);
    assert_string_equal(err.text, "");
    assert_true(cluster_set_nodes(cluster, draw_int(draw, 1, 3), &err));
    assert_true(cluster_take_gpus(cluster, draw_int(draw, 1, cluster->rank_count), &err));
    struct device *device = ARENA_NEW(arena, struct device, 1);
    *device = *cluster->nodes[0].device;
    if (draw_int(draw, 0, 3)) device->memory_bytes = (int64_t)draw_int(draw, 1500, 6000) << 20;
    cluster->nodes[0].device = device;
    return cluster;
}

static struct search_request draw_request(struct arena *arena, struct draw *draw)
{
    static const char *const STACKS[] = {"meshwright", "megatron-core", "megatron-deepspeed",
                                         "megatron-2021", "fsdp2"};
    static const int SEQ_LENS[] = {256, 512, 1024, 2048, 4096, 8192},
                     BATCHES[] = {8, 12, 24, 30, 32, 60, 64};
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3};
    request.model = draw_model(arena, draw);
    request.cluster = draw_cluster(arena, draw);
    request.stack = stack_load(arena, DRAW_ONE(draw, STACKS), &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = DRAW_ONE(draw, SEQ_LENS),
                                         .global_batch = DRAW_ONE(draw, BATCHES),
                                         .precision = PRECISION_FP16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

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
    struct plan_document document = {.request = &question,
                                     .evaluation = &evaluation,
                                     .search = result,
                                     .version = "test",
                                     .device_bytes = cluster_device_bytes(request->cluster)};
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
    int cases = wanted ? atoi(wanted) : 40;
    struct draw draw = draw_start("pruned against exhaustive", 20240601);
    int fitting = 0;
    struct kinds kinds = {0};
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = draw_request(&arena, &draw);
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
    int cases = wanted ? atoi(wanted) : 40;
    struct draw draw = draw_start("checker", 7);
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = draw_request(&arena, &draw);
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
            const struct space_redo *redo = &tail->redos[number % tail->redo_count];
            struct parallel parallel = space_parallel(space, group, tail, redo, redo->layers_low);
            composer_group(composer, &parallel);
            struct arena_mark mark = arena_mark(&scratch);
            const struct graph *graph =
                evaluation_graph(&scratch, request->model, request->stack, &parallel);
            struct program *program =
                program_lower(&scratch, graph, request->cluster, &request->workload, &parallel,
                              request->stack->merge_contractions);
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
        struct search_request request = draw_request(&arena, &draw);
        struct stack any = *request.stack;
        if (any.schedules) any.schedules = (1u << SCHEDULE_KIND_COUNT) - 1;
        request.stack = &any;
        check_composed(&arena, &request, 37);
        arena_free(&arena);
    }
}

// What the search drops without lowering it: no plan may be below the bounds of the graph, nor a
// micro-batch below the family's share of its largest one.
static void check_bounds(struct arena *arena, const struct search_request *request, int step)
{
    struct arena scratch = {0};
    struct memo *memo = memo_new(arena, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(arena, request, &graphs);
    struct composer *composer = composer_new(arena, &scratch, memo);
    for (int g = 0; g < space->group_count; g += step) {
        const struct space_group *group = &space->groups[g];
        const struct space_mesh *mesh = &space->meshes[group->mesh];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        const struct graph *graph = memo_graph(memo, group->attention, mesh->degree[AXIS_TP]);
        struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
        double least_s = bound_step_s(request, &facts, mesh, group->micro_batch, tails);
        double least_bytes = bound_bytes(request, &facts, mesh, tails);
        for (int i = 0; i < tails->count; i++) {
            const struct space_tail *tail = &tails->tails[i];
            struct parallel parallel = space_first(space, group, tail);
            composer_group(composer, &parallel);
            double layer_s = composer_probe(composer, &parallel, facts.probe_kind);
            double probe_s = bound_pipeline_s(
                facts.probe_count * layer_s, mesh->degree[AXIS_PP],
                (int)parallel_micro_batch_count(&parallel, request->workload.global_batch),
                tails->one_chunk);
            int stage;
            struct cost cost = composer_cost(composer, &parallel);
            double bytes = (double)composer_memory(composer, &parallel, &stage).reserved_bytes;
            assert_true(least_s <= cost.step_s && probe_s <= cost.step_s * (1 + 1e-12));
            assert_true(least_bytes <= bytes);
            assert_true((double)composer_floor_bytes(composer, &parallel) <= bytes);
        }
    }
    arena_free(&scratch);
}

static void bounds_of_the_graph_are_below_every_plan(void **state)
{
    (void)state;
    struct draw draw = draw_start("bounds", 17);
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0};
        struct search_request request = draw_request(&arena, &draw);
        check_bounds(&arena, &request, 7);
        arena_free(&arena);
    }
}

static void a_larger_micro_batch_takes_hardly_more_time_a_sequence(void **state)
{
    (void)state;
    struct draw draw = draw_start("families", 23);
    int pairs = 0;
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0}, scratch = {0};
        struct search_request request = draw_request(&arena, &draw);
        struct memo *memo = memo_new(&arena, &scratch, &request);
        struct space_graphs graphs = {memo_graph_of, memo};
        struct space *space = space_make(&arena, &request, &graphs);
        struct composer *composer = composer_new(&arena, &scratch, memo);
        double least_s = INFINITY;
        for (int g = 0; g < space->group_count; g++) {
            const struct space_group *group = &space->groups[g];
            const struct space_tails *tails = space_tails(space, &graphs, group);
            bool new_family = g == 0 || group->micro_batch <= group[-1].micro_batch;
            if (new_family) least_s = INFINITY;
            if (tails->count == 0) continue;
            const struct graph *graph =
                memo_graph(memo, group->attention, space->meshes[group->mesh].degree[AXIS_TP]);
            struct bound_facts facts = bound_facts(graph, request.workload.seq_len);
            struct parallel parallel = space_first(space, group, &tails->tails[0]);
            composer_group(composer, &parallel);
            double sequence_s =
                composer_probe(composer, &parallel, facts.probe_kind) / group->micro_batch;
            assert_true(SCAN_LAST_WAVE_RATIO * sequence_s <= least_s);
            pairs += !isinf(least_s);
            least_s = fmin(least_s, sequence_s);
        }
        arena_free(&scratch);
        arena_free(&arena);
    }
    assert_true(pairs > 200);
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
        struct search_request request = draw_request(&arena, &draw);
        struct search_result result = {0};
        struct err err = {0};
        if (search_plans(&arena, &request, &result, &err) && result.best_count > 0) {
            int64_t best_ns = step_ns(result.best[0].closed_form_s);
            int64_t bound_ns = step_ns(result.bound_s);
            assert_true(bound_ns <= best_ns);
            assert_int_equal(result.status == SEARCH_OPTIMAL, bound_ns == best_ns);
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
    assert_int_equal(smallest.status, SEARCH_OPTIMAL);
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

static void a_lost_choice_is_explained_term_by_term(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    struct search_result result = {0};
    struct explanation why = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    int other = result.best[0].parallel.degree[AXIS_TP] == 8 ? 1 : 8;
    assert_true(explain_why(arena, &request, &result, "tp", other == 8 ? "8" : "1", &why, &err));
    assert_true(why.possible && !why.is_winner);
    assert_int_equal(why.other.parallel.degree[AXIS_TP], other);
    double winner_s = 0, other_s = 0;
    for (int i = 0; i < why.term_count; i++) {
        winner_s += why.terms[i].winner_s;
        other_s += why.terms[i].other_s;
    }
    assert_true(fabs(winner_s - result.best[0].cost.step_s) < 1e-6 * winner_s);
    assert_true(fabs(other_s - why.other.cost.step_s) < 1e-6 * other_s);
    assert_non_null(why.text);
}

static void an_impossible_choice_is_explained_by_its_reason(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g", 2048, 64);
    struct search_result result = {0};
    struct explanation why = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(explain_why(arena, &request, &result, "--micro-batch", "5", &why, &err));
    assert_false(why.possible);
    assert_non_null(why.reason);
    assert_false(explain_why(arena, &request, &result, "tb", "5", &why, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "unknown choice \"tb\": did you mean \"tp\"?");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pruned_and_exhaustive_search_find_the_same_plans),
        cmocka_unit_test(every_plan_passes_the_independent_checker),
        cmocka_unit_test(composed_prices_and_memory_are_those_of_the_whole_program),
        cmocka_unit_test(bounds_of_the_graph_are_below_every_plan),
        cmocka_unit_test(a_larger_micro_batch_takes_hardly_more_time_a_sequence),
        cmocka_unit_test(equal_requests_give_equal_plans),
        cmocka_unit_test(optimal_is_said_only_with_a_certificate),
        cmocka_unit_test(the_smallest_plan_is_no_larger_than_the_fastest),
        cmocka_unit_test(what_does_not_fit_says_what_would),
        cmocka_unit_test(a_pin_that_keeps_a_plan_from_fitting_is_named_with_its_price),
        cmocka_unit_test(a_lost_choice_is_explained_term_by_term),
        cmocka_unit_test(an_impossible_choice_is_explained_by_its_reason),
        cmocka_unit_test(a_batch_past_what_the_optimizer_bears_is_warned_about),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
