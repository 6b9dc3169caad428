#include "tests/support/test.h"

#include "plan/layout/annotations.h"
#include "plan/ties.h"
#include "planner/choice.h"
#include "planner/per_operator.h"
#include "planner/ranking.h"
#include "simulator/closed_form.h"
#include "tests/support/layout_rules_draw.h"
#include "topologies/cluster.h"

#include <math.h>
#include <string.h>

// Layouts that a search finds for single operators, and what each costs there, against whole plans
// with drawn ones, which the evaluator of every command prices.

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

static struct search_request search_of(const struct evaluation_request *request)
{
    return (struct search_request){
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = request->workload,
        .pins = pins_none(),
    };
}

static struct per_operator find(struct arena *arena, const struct evaluation_request *request)
{
    struct arena known = {0}, scratch = {0};
    struct search_request search = search_of(request);
    struct layout_memo *memo = layout_memo_new(&known, &scratch, &search);
    struct per_operator found = per_operator_find(arena, &scratch, memo, request);
    arena_free(&scratch);
    arena_free(&known);
    return found;
}

static void check_found(struct arena *arena, struct draw *draw,
                        const struct evaluation_request *request, bool is_gain)
{
    struct arena scratch = {0};
    struct per_operator found = find(arena, request);
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

// Stages with unlike numbers of ranks, each with layouts of its own: as the whole plan is priced,
// and faster than what all stages can have alike. Tied embeddings, of gpt2, stay alike.
static void each_stage_has_layouts_of_its_own(void **state)
{
    static const struct {
        const char *model;
        int ranks[3], tps[3];
        bool sp, has_ties;
    } CASES[] = {{"llama-2-7b", {4, 2, 2}, {4, 2, 2}, true, false},
                 {"llama-2-7b", {4, 2, 2}, {2, 2, 1}, false, false},
                 {"gpt2", {2, 4, 2}, {2, 4, 2}, true, true}};
    struct draw draw = draw_start("layouts of stages", 2026);
    int staged_count = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct evaluation_request request =
            request_of(*state, CASES[i].model, "a100-pcie8", 8, 4, CASES[i].sp);
        struct parallel *parallel = &request.parallel;
        int widest = CASES[i].tps[1] > CASES[i].tps[0];
        parallel->degree[AXIS_PP] = parallel->stage_ranks_count = parallel->stage_tp_count = 3;
        parallel->stage_ranks = CASES[i].ranks;
        parallel->stage_tp = CASES[i].tps;
        parallel->degree[AXIS_TP] = CASES[i].tps[widest];
        parallel->degree[AXIS_DP] = CASES[i].ranks[widest] / CASES[i].tps[widest];
        parallel->micro_batch = 2 / parallel->degree[AXIS_DP];
        check_found(*state, &draw, &request, true);
        struct per_operator found = find(*state, &request);
        if (!layout_rules_are_staged(&found.parallel)) continue;
        staged_count++;
        const struct graph *graph =
            evaluation_graph(*state, request.model, request.stack, parallel);
        assert_int_equal(ties_any(graph), CASES[i].has_ties);
        for (int r = 0; r < found.parallel.layout_count; r++) {
            const struct layout_rule *rule = &found.parallel.layouts[r];
            bool is_end = strncmp(rule->operator, "layer.", 6) != 0;
            assert_int_equal(rule->is_of_stage, !(CASES[i].has_ties && is_end));
            // Each stage's own, given to all.
            struct parallel alike = request.parallel;
            struct layout_rule own = *rule;
            own.is_of_stage = false;
            alike.layouts = &own;
            alike.layout_count = 1;
            double alike_s = 0;
            int64_t bytes = 0;
            if (price(&request, &alike, &alike_s, &bytes))
                assert_true(step_ns(found.found_s) <= step_ns(alike_s));
        }
        for (int c = 0; c < found.change_count; c++)
            assert_in_range(found.changes[c].stage + 1, 0, 3);
    }
    assert_true(staged_count >= 2);
}

static void one_rank_of_tp_has_one_layout(void **state)
{
    struct draw draw = draw_start("layouts of one rank", 2026);
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 2, 1, false);
    check_found(*state, &draw, &request, false);
    struct per_operator found = find(*state, &request);
    assert_int_equal(found.operator_count, 0);
    assert_int_equal(found.parallel.layout_count, 0);
}

// Costs of a step of weeks are within what problems may hold.
static void a_step_may_take_weeks(void **state)
{
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 4, 4, true);
    struct per_operator short_step = find(*state, &request);
    request.workload.global_batch <<= 22;
    struct per_operator found = find(*state, &request);
    assert_true(found.table_s > 1e5 && found.found_s < found.table_s);
    assert_int_equal(found.parallel.layout_count, short_step.parallel.layout_count);
}

enum { SAID_DRAWS = 60 };

// What is said of drawn operators, as often as not of one of a few: what is asked for again must
// not be taken for another.
static int draw_said(struct arena *arena, struct draw *draw, const struct graph *graph,
                     struct layout_said said[LAYOUT_SITES_MAX])
{
    int count = 0, one_in = 1 << draw_int(draw, 1, 6);
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count && count < LAYOUT_SITES_MAX; o++) {
            struct layout_rule rule = {.axis = AXIS_TP,
                                       .operator= layout_rule_name(arena, block, &block->ops[o])};
            int legal = 0;
            for (int d = DIM_NONE; d < DIM_COUNT; d++) {
                struct layout_rule other = rule;
                other.dim = (enum dim)d;
                if (layout_rule_fault(arena, block, &block->ops[o], &other)) continue;
                if (draw_int(draw, 0, legal++) == 0) rule.dim = other.dim;
            }
            bool is_said = draw_int(draw, 1, one_in) == 1 && legal > 0;
            if (is_said) said[count++] = (struct layout_said){b, o, rule};
        }
    }
    return count;
}

enum { STAGES_MOST = 4 };

// What is said of one stage, and what follows from it there.
static int add_said(struct arena *arena, const struct graph *graph, const struct layout_said *said,
                    int count, int stage, struct layout_rule *all)
{
    struct layout_rule rules[LAYOUT_SITES_MAX];
    int own = 0;
    for (int i = 0; i < count; i++) {
        bool is_here = said[i].rule.is_of_stage ? said[i].rule.stage == stage : stage < 0;
        if (!is_here) continue;
        rules[own] = said[i].rule;
        rules[own++].is_of_stage = false;
    }
    const struct annotations given = {rules, own};
    struct annotations filled = annotations_fill(arena, graph, &given);
    for (int i = 0; i < filled.count; i++) {
        all[i] = filled.rules[i];
        all[i].is_of_stage = stage >= 0;
        all[i].stage = stage >= 0 ? stage : 0;
    }
    return filled.count;
}

static bool price_said(struct arena *arena, const struct evaluation_request *request,
                       const struct graph *graph, const struct layout_said *said, int count,
                       struct layout_value *value)
{
    struct parallel parallel = request->parallel;
    struct layout_rule rules[(STAGES_MOST + 1) * 4 * LAYOUT_SITES_MAX];
    for (int stage = -1; stage < parallel.stage_ranks_count; stage++)
        parallel.layout_count +=
            add_said(arena, graph, said, count, stage, rules + parallel.layout_count);
    parallel.layouts = rules;
    return price(request, &parallel, &value->step_s, &value->reserved_bytes);
}

// Each of a drawn stage that has it and may lay it out by itself; what none may is not said.
static int spread_over_stages(struct draw *draw, const struct layout_prices *prices, int stages,
                              struct layout_said *said, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int stage = draw_int(draw, 0, stages - 1);
        if (!layout_prices_is_on(prices, stage, said[i].block) ||
            layout_prices_is_tied(prices, said[i].block))
            continue;
        said[kept] = said[i];
        said[kept].rule.is_of_stage = true;
        said[kept++].rule.stage = stage;
    }
    return kept;
}

// Legal ones are counted.
static int check_prices(struct draw *draw, const struct evaluation_request *request,
                        struct layout_memo *memo)
{
    struct arena arena = {0};
    struct layout_prices *prices = layout_prices_new(memo, request);
    const struct graph *graph = layout_prices_graph(prices);
    int legal_count = 0;
    for (int i = 0; i < SAID_DRAWS; i++) {
        struct layout_said said[LAYOUT_SITES_MAX];
        int count = draw_said(&arena, draw, graph, said);
        int stages = request->parallel.stage_ranks_count;
        if (stages > 1 && draw_int(draw, 0, 2) > 0)
            count = spread_over_stages(draw, prices, stages, said, count);
        struct layout_value whole = {0};
        struct layout_value value = layout_prices_value(prices, said, count, INFINITY);
        assert_int_equal(value.is_legal, price_said(&arena, request, graph, said, count, &whole));
        if (!value.is_legal) continue;
        legal_count++;
        assert_true(fabs(value.step_s - whole.step_s) <= 1e-12 * whole.step_s);
        assert_int_equal(value.reserved_bytes, whole.reserved_bytes);
        value = layout_prices_value(prices, said, count, value.step_s);
        assert_int_equal(value.reserved_bytes, INT64_MAX);
        assert_true(fabs(value.step_s - whole.step_s) <= 1e-12 * whole.step_s);
    }
    arena_free(&arena);
    return legal_count;
}

static void what_a_layout_costs_is_what_the_whole_plan_costs(void **state)
{
    static const struct {
        const char *model;
        int tp, pp, ep, zero, second_tp;
        enum recompute recompute;
        bool sp;
        int ranks[2];
    } CASES[] = {
        {"gpt2", 4, 1, 1, 0, 0, RECOMPUTE_NONE, true, {0, 0}},
        {"gpt2", 2, 2, 1, 1, 0, RECOMPUTE_SELECTIVE, false, {0, 0}},
        {"t5-base", 2, 1, 1, 3, 0, RECOMPUTE_FULL, true, {0, 0}},
        {"gemma-2-9b", 2, 1, 1, 2, 0, RECOMPUTE_NONE, true, {0, 0}},
        {"mixtral-8x7b", 2, 1, 4, 1, 0, RECOMPUTE_NONE, true, {0, 0}},
        {"llama-3-8b", 4, 2, 1, 0, 2, RECOMPUTE_NONE, true, {0, 0}},
        {"llama-3-8b", 4, 2, 1, 1, 2, RECOMPUTE_NONE, true, {4, 4}},
        {"llama-3-8b", 2, 2, 1, 0, 2, RECOMPUTE_SELECTIVE, false, {2, 6}},
        // Six sequences are cut evenly in the first stage alone.
        {"llama-3-8b", 2, 2, 1, 0, 4, RECOMPUTE_NONE, false, {2, 4}},
    };
    struct draw draw = draw_start("costs of layouts", 20261129);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena known = {0}, scratch = {0};
        const int *ranks = CASES[i].ranks;
        int stages = CASES[i].pp, gpus = ranks[0] ? ranks[0] + ranks[1] : 8, legal_count = 0;
        struct evaluation_request request =
            request_of(*state, CASES[i].model, "dgx-a100-80g", gpus, CASES[i].tp, CASES[i].sp);
        struct parallel *parallel = &request.parallel;
        parallel->degree[AXIS_PP] = stages;
        parallel->degree[AXIS_EP] = CASES[i].ep;
        parallel->degree[AXIS_DP] = gpus / CASES[i].tp / stages;
        parallel->recompute = CASES[i].recompute;
        const int stage_tp[] = {CASES[i].tp, CASES[i].second_tp};
        parallel->stage_tp = stage_tp;
        parallel->stage_tp_count = CASES[i].second_tp ? 2 : 0;
        parallel->stage_ranks = ranks;
        parallel->stage_ranks_count = ranks[0] ? 2 : 0;
        if (ranks[0]) {
            int widest = stage_tp[1] > stage_tp[0];
            parallel->degree[AXIS_TP] = stage_tp[widest];
            parallel->degree[AXIS_DP] = ranks[widest] / stage_tp[widest];
            request.workload.global_batch = 48;
        }
        struct search_request search = search_of(&request);
        struct layout_memo *memo = layout_memo_new(&known, &scratch, &search);
        // Plans of one search, which share what they can: the last one, with other sharding than
        // the first, which layouts it can have.
        for (int plan = 0; plan < 3; plan++) {
            parallel->micro_batch = (ranks[0] ? 6 : 2) << plan % 2;
            parallel->zero = plan == 0 ? CASES[i].zero : 0;
            parallel->recompute = plan == 2 ? RECOMPUTE_NONE : CASES[i].recompute;
            legal_count += check_prices(&draw, &request, memo);
        }
        assert_in_range(legal_count, 10, 3 * SAID_DRAWS);
        arena_free(&scratch);
        arena_free(&known);
    }
}

// A better bound than what is found is no bound.
static void the_best_layouts_come_first(void **state)
{
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 4, 4, true);
    struct search_request search = search_of(&request);
    struct candidate *plans = ARENA_NEW(*state, struct candidate, 2);
    struct search_result result = {.status = SEARCH_OPTIMAL, .best = plans, .best_count = 2};
    struct per_operator_found found;
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        plans[i].parallel = request.parallel;
        plans[i].parallel.micro_batch = 4 >> i;
        assert_true(price(&request, &plans[i].parallel, &plans[i].closed_form_s,
                          &plans[i].memory.reserved_bytes));
        plans[i].cost.step_s = plans[i].closed_form_s;
    }
    assert_true(plans[0].cost.step_s < plans[1].cost.step_s);
    result.bound_s = plans[0].closed_form_s;
    assert_true(per_operator_improve(*state, &search, &result, 2, &found, &err));
    const struct candidate *best = &result.best[0];
    assert_string_equal(err.text, "");
    assert_true(found.is_better && best->simulated && best->parallel.layout_count > 0);
    assert_true(best->cost.step_s < plans[0].cost.step_s);
    assert_true(best->closed_form_s == found.best.found_s && result.bound_s == found.best.found_s);
    assert_true(best->memory.reserved_bytes > 0);
    assert_int_equal(best->parallel.micro_batch, 4);
    assert_int_equal(result.status, SEARCH_BEST_OF);
    assert_int_equal(result.best_count, 2);
    assert_memory_equal(&result.best[1], &plans[0], sizeof *plans);
    assert_memory_equal(&found.was, &plans[0], sizeof *plans);
    assert_int_equal(found.plan_count, 2);
    assert_true(found.priced_count > found.best.priced_count);
    search.stack = stack_load(*state, "megatron-core", &err);
    assert_false(per_operator_improve(*state, &search, &result, 1, &found, &err));
    assert_string_equal(err.text,
                        "--per-operator: stack megatron-core lays no operator out by itself");
}

// Layouts are priced on one device; what is told of unlike ones is what the events say.
static void unlike_devices_are_told_of_as_played(void **state)
{
    struct evaluation_request request = request_of(*state, "gpt2", "h100-a100-mixed", 16, 4, true);
    request.parallel.degree[AXIS_PP] = request.parallel.stage_layers_count = 2;
    request.parallel.degree[AXIS_DP] = 2;
    request.parallel.stage_layers = (const int[]){8, 4};
    struct search_request search = search_of(&request);
    struct candidate plan = {.parallel = request.parallel};
    struct arena scratch = {0};
    struct evaluation evaluation = {0};
    struct per_operator_found found;
    struct err err = {0};
    assert_true(evaluate(*state, &scratch, &request, &evaluation, &err));
    plan.cost = evaluation.simulation->cost;
    plan.closed_form_s = plan.cost.step_s;
    plan.memory = evaluation.stage_memory[0];
    // The closed form of the slowest device is another.
    assert_true(fabs(closed_form(evaluation.price).step_s / plan.cost.step_s - 1) > 1e-3);
    struct search_result result = {.status = SEARCH_FEASIBLE, .best = &plan, .best_count = 1};
    assert_true(per_operator_improve(*state, &search, &result, 2, &found, &err));
    assert_true(found.is_better && result.best_count == 2);
    assert_true(found.best.table_s == plan.cost.step_s);
    assert_true(found.best.found_s == result.best[0].cost.step_s);
    assert_true(result.best[0].closed_form_s == found.best.found_s);
    assert_true(found.best.found_s < found.best.table_s);
    arena_free(&scratch);
}

static void one_layout_leaves_the_plans_as_they_were(void **state)
{
    struct evaluation_request request = request_of(*state, "gpt2", "dgx-a100-80g", 2, 1, false);
    struct search_request search = search_of(&request);
    struct candidate plan = {.parallel = request.parallel, .cost = {.step_s = 1}};
    struct search_result result = {
        .status = SEARCH_OPTIMAL, .best = &plan, .best_count = 1, .bound_s = 0.5};
    struct per_operator_found found;
    struct err err = {0};
    assert_true(per_operator_improve(*state, &search, &result, 1, &found, &err));
    assert_false(found.is_better);
    assert_int_equal(found.plan_count, 1);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
    assert_true(result.best == &plan && result.best_count == 1 && result.bound_s == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_drawn_layouts_are_faster_than_what_is_found),
        cmocka_unit_test(each_stage_has_layouts_of_its_own),
        cmocka_unit_test(one_rank_of_tp_has_one_layout),
        cmocka_unit_test(a_step_may_take_weeks),
        cmocka_unit_test(the_best_layouts_come_first),
        cmocka_unit_test(unlike_devices_are_told_of_as_played),
        cmocka_unit_test(one_layout_leaves_the_plans_as_they_were),
        cmocka_unit_test(what_a_layout_costs_is_what_the_whole_plan_costs),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
