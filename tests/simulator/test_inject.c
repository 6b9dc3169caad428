#include "simulator/inject.h"
#include "tests/support/draw.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include "models/import.h"
#include "simulator/lanes.h"

#include <math.h>
#include <stdio.h>

enum { DRAWS = 60, SEED = 45 };

struct inject_question {
    struct evaluation_request request;
    struct evaluation evaluation;
};

static void no_error(const struct err *err)
{
    assert_string_equal(err->text, "");
}

static struct inject_question *ask(struct arena *arena, const char *model, const char *cluster,
                                   const char *stack, struct parallel parallel, int64_t batch)
{
    struct inject_question *question = ARENA_NEW(arena, struct inject_question, 1);
    struct evaluation_request *request = &question->request;
    struct err err = {0};
    request->model = model_load(arena, model, NULL, NULL, &err);
    no_error(&err);
    request->cluster = cluster_load(arena, cluster, &err);
    no_error(&err);
    request->stack = stack_load(arena, stack, &err);
    no_error(&err);
    request->fabrics = fabrics_load(arena, &err);
    no_error(&err);
    request->workload = (struct workload){
        .seq_len = 1024, .global_batch = batch, .precision = PRECISION_BF16, .expert_imbalance = 1};
    request->parallel = parallel;
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, request, &question->evaluation, &err);
    arena_free(&scratch);
    no_error(&err);
    assert_true(done);
    return question;
}

static struct parallel degrees(int tp, int pp, int dp)
{
    struct parallel parallel = {.vpp = 1, .schedule = SCHEDULE_1F1B, .attention = ATTENTION_FLASH};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel_default_order(&parallel);
    parallel.degree[AXIS_TP] = tp;
    parallel.degree[AXIS_PP] = pp;
    parallel.degree[AXIS_DP] = dp;
    parallel.micro_batch = 1;
    return parallel;
}

static struct injection_result play(struct arena *arena, const struct inject_question *question,
                                    const struct injection_cause *causes, int count, double jitter,
                                    bool want_trace)
{
    struct injection injection = {causes, count, jitter, 3};
    struct injection_result result;
    struct arena scratch = {0};
    struct err err = {0};
    bool done = inject(arena, &scratch, &question->request, &question->evaluation, &injection,
                       want_trace, &result, &err);
    arena_free(&scratch);
    no_error(&err);
    assert_true(done);
    return result;
}

static double step_with(struct arena *arena, const struct inject_question *question,
                        struct injection_cause cause)
{
    return play(arena, question, &cause, 1, 0, false).step_s;
}

static void is_near(double found, double wanted, double tolerance_ratio)
{
    if (fabs(found - wanted) <= tolerance_ratio * fabs(wanted)) return;
    fail_msg("found %.12g, wanted %.12g", found, wanted);
}

static void nothing_injected_is_the_plan(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g", "megatron-core", degrees(2, 2, 2), 64);
    double step_s = question->evaluation.simulation->cost.step_s;
    struct injection_result result = play(*state, question, NULL, 0, 0, false);
    assert_true(result.step_s == step_s && result.planned_s == step_s);
    is_near(step_with(*state, question, (struct injection_cause){INJECT_RANK, 3, 3, 1}), step_s, 0);
    is_near(step_with(*state, question, (struct injection_cause){INJECT_NIC, 0, 0, 1}), step_s, 0);
}

// One tensor-parallel group: at every collective the fast rank waits, so that one slow rank costs
// what two slow ones do, which is the compute of the step half as long again.
static void a_slow_rank_holds_up_its_whole_tensor_parallel_group(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt3-1.3b", "dgx-a100-80g", "megatron-core", degrees(8, 1, 1), 16);
    struct injection_cause one = {INJECT_RANK, 5, 5, 1.5}, all = {INJECT_RANK, 0, 7, 1.5};
    struct injection_result result = play(*state, question, &one, 1, 0, false);
    assert_true(result.step_s == step_with(*state, question, all));
    assert_int_equal(result.timeline_count, 1);
    const struct cost *cost = &question->evaluation.simulation->cost;
    double compute_s = cost->compute_s + cost->recompute_s + cost->update_s;
    is_near(result.step_s - result.planned_s, 0.5 * compute_s, 1e-6);
    // The slow rank computes all of what is longer, the seven others wait for it.
    assert_int_equal(result.share_count, 2);
    assert_string_equal(result.shares[0].who, "rank 5 (x1.5)");
    is_near(result.shares[0].compute_s, 0.5 * compute_s, 1e-6);
    assert_true(fabs(result.shares[0].wait_s) < 1e-6 * result.step_s);
    assert_string_equal(result.shares[1].who, "in step with it: ranks 0-4, 6-7");
    assert_int_equal(result.shares[1].rank_count, 7);
    is_near(result.shares[1].wait_s, 0.5 * compute_s, 1e-6);
}

// The oracle: every rank has a timeline, as slow as the slowest rank of its tensor-parallel group,
// which is that of its neighbours.
static double unfolded_s(struct arena *arena, const struct inject_question *question, int tp,
                         int pp, const double *slowdown)
{
    struct arena scratch = {0};
    int rank_count = (int)parallel_rank_count(&question->request.parallel);
    struct engine_options options = {.all_ranks = true, .rank_count = rank_count};
    options.stage_of_rank = ARENA_NEW(arena, int, rank_count);
    options.slowdown_of_rank = ARENA_NEW(arena, double, rank_count);
    for (int rank = 0; rank < rank_count; rank++) {
        options.stage_of_rank[rank] = rank / (rank_count / pp);
        double most = 1;
        for (int i = 0; i < tp; i++)
            most = fmax(most, slowdown[rank / tp * tp + i]);
        options.slowdown_of_rank[rank] = most;
    }
    double step_s =
        simulate_step(arena, &scratch, question->evaluation.price, &options)->cost.step_s;
    arena_free(&scratch);
    return step_s;
}

static void folded_timelines_equal_those_of_all_ranks(void **state)
{
    struct draw draw = draw_start("folded timelines", SEED);
    for (int i = 0; i < DRAWS; i++) {
        int tp = 1 << draw_int(&draw, 0, 2), pp = 1 << draw_int(&draw, 0, 2);
        int dp = 16 / tp / pp;
        struct inject_question *question =
            ask(*state, "gpt2", "dgx-a100-80g-x2", "megatron-core", degrees(tp, pp, dp), 64);
        struct injection_cause causes[3];
        double slowdown[16];
        for (int rank = 0; rank < 16; rank++)
            slowdown[rank] = 1;
        for (int k = 0; k < 3; k++) {
            int first = draw_int(&draw, 0, 15);
            int last = draw_int(&draw, first, first + 2 < 15 ? first + 2 : 15);
            causes[k] =
                (struct injection_cause){INJECT_RANK, first, last, 1 + 0.1 * draw_int(&draw, 0, 9)};
            for (int rank = first; rank <= last; rank++)
                slowdown[rank] = fmax(slowdown[rank], causes[k].factor);
        }
        double found_s = play(*state, question, causes, 3, 0, false).step_s;
        double wanted_s = unfolded_s(*state, question, tp, pp, slowdown);
        if (found_s != wanted_s)
            fail_msg("draw %d: folded %.12g s, all ranks %.12g s", i, found_s, wanted_s);
    }
}

// Both nodes of a ring: it goes round at the pace of the slower, as if both had lost as much.
static void a_degraded_nic_slows_the_ring_that_crosses_it(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2-xl", "dgx-a100-80g-x2", "megatron-core", degrees(1, 1, 16), 64);
    double half_s = step_with(*state, question, (struct injection_cause){INJECT_NIC, 1, 1, 0.5});
    struct cluster *slower = ARENA_NEW(*state, struct cluster, 1);
    *slower = *question->request.cluster;
    slower->nodes = ARENA_NEW(*state, struct node_group, 1);
    slower->nodes[0] = question->request.cluster->nodes[0];
    slower->nodes[0].nics.bandwidth_bytes_per_s /= 2;
    struct evaluation_request request = question->request;
    request.cluster = slower;
    struct evaluation evaluation;
    struct arena scratch = {0};
    struct err err = {0};
    assert_true(evaluate(*state, &scratch, &request, &evaluation, &err));
    arena_free(&scratch);
    is_near(half_s, evaluation.simulation->cost.step_s, 1e-9);
    assert_true(half_s > 1.001 * question->evaluation.simulation->cost.step_s);
    // The less is left, the longer it takes.
    double before_s = 0;
    for (double ratio = 1; ratio > 0.05; ratio *= 0.7) {
        double step_s =
            step_with(*state, question, (struct injection_cause){INJECT_NIC, 0, 0, ratio});
        assert_true(step_s >= before_s);
        before_s = step_s;
    }
}

// Tensor parallelism stays inside nodes, and nothing else is there: a NIC costs nothing, a link the
// collectives of the ranks behind it.
static void only_what_crosses_a_link_is_slowed(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g", "megatron-core", degrees(4, 1, 2), 64);
    double planned_s = question->evaluation.simulation->cost.step_s;
    is_near(step_with(*state, question, (struct injection_cause){INJECT_NIC, 0, 0, 0.1}), planned_s,
            0);
    struct injection_cause link = {INJECT_LINK, 0, 0, 0.25};
    struct injection_result result = play(*state, question, &link, 1, 0, false);
    assert_true(result.step_s > planned_s);
    assert_true(result.shares[0].communication_s > 0);
    assert_non_null(strstr(result.shares[0].who, "on slower links"));
}

// Two pipelines on two nodes each: only the one on the degraded node hops slowly.
static void hops_of_a_degraded_node_take_longer(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt3-1.3b", "dgx-a100-80g-x2", "megatron-core", degrees(8, 2, 1), 8);
    double planned_s = question->evaluation.simulation->cost.step_s;
    double step_s = step_with(*state, question, (struct injection_cause){INJECT_NIC, 0, 0, 0.01});
    assert_true(step_s > planned_s);
    is_near(step_s, step_with(*state, question, (struct injection_cause){INJECT_NIC, 1, 1, 0.01}),
            1e-3);
}

// One micro-batch down and up four stages, the second of which sends and receives five times as
// slowly: two of three hops each way do.
static void a_hop_takes_as_long_as_its_slower_end(void **state)
{
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        struct schedule_shape shape = {4, 1, 1, 0, NULL};
        struct step_price *price = even_plan(*state, SCHEDULE_1F1B, shape, 1e-3, 2e-3);
        price->hop_s = 0.1e-3;
        price->hop_overlapped = overlapped;
        struct step_price slower = *price;
        slower.hop_s = 0.5e-3;
        const struct step_price *prices[] = {price, &slower};
        struct lane_stage stages[4];
        for (int stage = 0; stage < 4; stage++)
            stages[stage] = (struct lane_stage){.slowdown = 1, .price = stage == 1};
        struct engine_lane lane = {1, stages, 0};
        struct engine_options options = {.lanes = &lane, .lane_count = 1, .prices = prices};
        struct arena scratch = {0};
        double step_s = simulate_step(*state, &scratch, price, &options)->cost.step_s;
        arena_free(&scratch);
        is_near(step_s, 4 * 3e-3 + 2 * (2 * 0.5e-3 + 0.1e-3), 1e-9);
    }
}

static void causes_compose(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt3-1.3b", "dgx-a100-80g-x4", "megatron-core", degrees(2, 2, 8), 64);
    const struct injection_cause causes[] = {
        {INJECT_RANK, 9, 9, 1.3}, {INJECT_NIC, 2, 2, 0.3}, {INJECT_LINK, 3, 3, 0.2}};
    struct injection_result result = play(*state, question, causes, 3, 0, false);
    double sum_s = result.planned_s;
    for (int i = 0; i < 3; i++) {
        const struct injection_effect *effect = &result.effects[i];
        assert_true(effect->alone_s == step_with(*state, question, causes[i]));
        assert_true(effect->alone_s > result.planned_s && effect->alone_s <= result.step_s);
        assert_true(effect->without_s <= result.step_s);
        sum_s += effect->alone_s - result.planned_s;
    }
    assert_true(result.step_s <= sum_s);
    int64_t ranks = 0;
    for (int i = 0; i < result.share_count; i++)
        ranks += result.shares[i].rank_count;
    assert_int_equal(ranks, 32);
}

// Seven of eight replicas slow, each by a factor of its own: the four worst have a line, worst
// first, the other three (x1.1 to x1.3) are 0.2 of the compute longer in the mean.
static void those_without_a_line_are_told_in_the_mean(void **state)
{
    enum { SLOW = 7, LISTED = 4 };
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g", "megatron-core", degrees(1, 1, 8), 64);
    struct injection_cause causes[SLOW];
    for (int i = 0; i < SLOW; i++)
        causes[i] = (struct injection_cause){INJECT_RANK, i, i, 1.1 + 0.1 * i};
    struct injection_result result = play(*state, question, causes, SLOW, 0, false);
    const struct cost *cost = &question->evaluation.simulation->cost;
    double compute_s = cost->compute_s + cost->recompute_s + cost->update_s;
    assert_int_equal(result.share_count, LISTED + 2);
    for (int i = 0; i < LISTED; i++) {
        char who[32];
        snprintf(who, sizeof who, "rank %d (x%.3g)", SLOW - 1 - i, 1.7 - 0.1 * i);
        assert_string_equal(result.shares[i].who, who);
        is_near(result.shares[i].compute_s, (0.7 - 0.1 * i) * compute_s, 1e-6);
    }
    const struct injection_share *more = &result.shares[LISTED];
    assert_string_equal(more->who, "more like these, in the mean");
    assert_int_equal(more->rank_count, SLOW - LISTED);
    is_near(more->compute_s, 0.2 * compute_s, 1e-6);
    assert_true(more->communication_s == 0);
    is_near(more->wait_s, 0.5 * compute_s, 1e-6);
    assert_string_equal(more[1].who, "all other pipelines");
    assert_int_equal(more[1].rank_count, 1);
}

// Six nodes behind links of half the bandwidth, each with a slow rank of its own factor: what the
// links cost is told of the four that have a line and, in the mean, of the two that have none.
static void slow_links_count_without_a_line_too(void **state)
{
    enum { NODES = 6, RANKS = 8 };
    struct inject_question *question =
        ask(*state, "gpt3-1.3b", "dgx-a100-80g-x6", "megatron-core", degrees(RANKS, 1, NODES), 60);
    struct injection_cause causes[NODES + 1] = {{INJECT_LINK, 0, NODES - 1, 0.5}};
    for (int i = 0; i < NODES; i++)
        causes[i + 1] = (struct injection_cause){INJECT_RANK, RANKS * i, RANKS * i, 1.1 + 0.1 * i};
    struct injection_result result = play(*state, question, causes, NODES + 1, 0, false);
    double links_s = step_with(*state, question, causes[0]) - result.planned_s;
    assert_true(links_s > 0);
    int64_t ranks = 0;
    for (int i = 0; i < result.share_count; i++) {
        is_near(result.shares[i].communication_s, links_s, 1e-3);
        ranks += result.shares[i].rank_count;
    }
    assert_int_equal(ranks, NODES * RANKS);
    const struct injection_share *more = &result.shares[result.share_count - 1];
    assert_string_equal(more->who, "more like these, in the mean");
    assert_int_equal(more->rank_count, 2 * RANKS);
}

// Experts are spread over all data parallel ranks, whose exchanges make them move in step.
static void expert_parallel_ranks_move_in_step(void **state)
{
    struct parallel parallel = degrees(1, 1, 8);
    parallel.degree[AXIS_EP] = 8;
    struct inject_question *question =
        ask(*state, "mixtral-8x7b", "dgx-h100", "megatron-core", parallel, 16);
    struct injection_cause one = {INJECT_RANK, 2, 2, 1.2}, all = {INJECT_RANK, 0, 7, 1.2};
    struct injection_result result = play(*state, question, &one, 1, 0, false);
    assert_int_equal(result.timeline_count, 1);
    assert_true(result.step_s == step_with(*state, question, all));
}

static void jitter_costs_more_the_wider_it_is(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g", "megatron-core", degrees(2, 2, 2), 64);
    double before_s = question->evaluation.simulation->cost.step_s;
    for (double ratio = 0.01; ratio < 0.2; ratio *= 2) {
        struct injection_result result = play(*state, question, NULL, 0, ratio, false);
        assert_true(result.step_s > before_s && result.steady_s == result.planned_s);
        assert_true(result.step_s == play(*state, question, NULL, 0, ratio, false).step_s);
        before_s = result.step_s;
    }
}

// One stage, n ranks that move in step, many tasks: each takes as long as the slowest of n normal
// draws, 1.4236 deviations above the mean of 8 (Teichroew 1956, Annals of Mathematical Statistics).
static void jitter_is_the_expected_maximum_over_ranks(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt3-1.3b", "dgx-a100-80g", "megatron-core", degrees(8, 1, 1), 2048);
    const struct cost *cost = &question->evaluation.simulation->cost;
    struct injection_result result = play(*state, question, NULL, 0, 0.05, false);
    double longer_s = result.step_s - result.planned_s;
    is_near(longer_s / (cost->compute_s + cost->recompute_s), 0.05 * 1.4236, 0.03);
}

static void a_trace_shows_who_waits(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g-x128", "megatron-core", degrees(4, 2, 128), 1024);
    struct injection_cause cause = {INJECT_RANK, 201, 201, 1.2};
    struct injection_result result = play(*state, question, &cause, 1, 0, true);
    assert_int_equal(result.timeline_count, 2);
    const struct trace *trace = &result.simulation->trace;
    int64_t compute_ns[1024] = {0}, last_ns = 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        assert_true(trace->appears[span->rank]);
        if (span->stream == STREAM_COMPUTE) compute_ns[span->rank] += span->end_ns - span->start_ns;
        if (span->end_ns > last_ns) last_ns = span->end_ns;
    }
    assert_true((double)last_ns * 1e-9 <= result.step_s);
    // It, one in step with it, one of the next stage, and one pipeline that is not concerned.
    int appear = 0;
    for (int rank = 0; rank < trace->rank_count; rank++)
        appear += trace->appears[rank];
    assert_int_equal(appear, 2 + 1 + 2);
    struct arena scratch = {0};
    assert_string_equal(trace->rank_name(trace->context, 201, &scratch), "rank 201 (x1.2)");
    assert_string_equal(trace->rank_name(trace->context, 200, &scratch),
                        "ranks 200, 202-203 (in step with a slow one)");
    assert_string_equal(trace->rank_name(trace->context, 200 + 512, &scratch),
                        "ranks 712-715 (in the same pipeline)");
    arena_free(&scratch);
    assert_true(trace->appears[712] && trace->appears[0] && trace->appears[512]);
    assert_true(compute_ns[201] > compute_ns[200] && compute_ns[200] > 0);
}

static void what_is_not_there_is_named(void **state)
{
    struct inject_question *question =
        ask(*state, "gpt2", "dgx-a100-80g", "megatron-core", degrees(2, 2, 2), 64);
    static const char *const WANTED[] = {"--slow-rank: the plan has ranks 0 to 7, found 8",
                                         "--degraded-nic: the plan has nodes 0 to 0, found 8",
                                         "--slow-link: the plan has nodes 0 to 0, found 8"};
    for (int kind = INJECT_RANK; kind <= INJECT_LINK; kind++) {
        struct injection_cause cause = {(enum injection_kind)kind, 0, 8, 1};
        struct injection injection = {&cause, 1, 0, 0};
        struct injection_result result;
        struct arena scratch = {0};
        struct err err = {0};
        assert_false(inject(*state, &scratch, &question->request, &question->evaluation, &injection,
                            false, &result, &err));
        arena_free(&scratch);
        assert_int_equal(err.kind, ERR_USAGE);
        assert_string_equal(err.text, WANTED[kind]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_injected_is_the_plan),
        cmocka_unit_test(a_slow_rank_holds_up_its_whole_tensor_parallel_group),
        cmocka_unit_test(folded_timelines_equal_those_of_all_ranks),
        cmocka_unit_test(a_degraded_nic_slows_the_ring_that_crosses_it),
        cmocka_unit_test(only_what_crosses_a_link_is_slowed),
        cmocka_unit_test(hops_of_a_degraded_node_take_longer),
        cmocka_unit_test(a_hop_takes_as_long_as_its_slower_end),
        cmocka_unit_test(causes_compose),
        cmocka_unit_test(those_without_a_line_are_told_in_the_mean),
        cmocka_unit_test(slow_links_count_without_a_line_too),
        cmocka_unit_test(expert_parallel_ranks_move_in_step),
        cmocka_unit_test(jitter_costs_more_the_wider_it_is),
        cmocka_unit_test(jitter_is_the_expected_maximum_over_ranks),
        cmocka_unit_test(a_trace_shows_who_waits),
        cmocka_unit_test(what_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
