#include "plan/schedule.h"
#include "planner/choice.h"
#include "planner/memo.h"
#include "planner/space.h"
#include "tests/support/test.h"

#include <math.h>

// What is said of the tails of a group, against every plan of them one by one, and that groups
// which share their tails would each have made the same.

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        const char *stack, int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster_load(arena, cluster, &err),
        .stack = stack_load(arena, stack, &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024, .global_batch = global_batch, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    assert_string_equal(err.text, "");
    return request;
}

// The same, found by going through all plans.
struct seen {
    double plan_count;
    int zero_least, zero_most, in_flight_least;
    unsigned kinds, state_tiers;
    bool keeps_all, moves_activations, accumulates;
    double hold_ratio;
};

static void see_plan(struct seen *seen, const struct parallel *plan)
{
    const struct schedule_row *row = schedule_row(plan->schedule);
    seen->plan_count++;
    if (plan->zero < seen->zero_least) seen->zero_least = plan->zero;
    if (plan->zero > seen->zero_most) seen->zero_most = plan->zero;
    if (plan->in_flight > 0 && plan->in_flight < seen->in_flight_least)
        seen->in_flight_least = plan->in_flight;
    seen->kinds |= !row->backward_fused ? PIPELINE_PARTED
                   : plan->vpp == 1     ? PIPELINE_FUSED
                                        : PIPELINE_CHUNKED;
    seen->state_tiers |= 1u << plan->offload.optimizer;
    seen->keeps_all |= plan->recompute == RECOMPUTE_NONE;
    seen->accumulates |= plan->accumulates;
    if (row->hold_ratio < seen->hold_ratio) seen->hold_ratio = row->hold_ratio;
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
        seen->moves_activations |= plan->offload.layers[class] != 0;
}

static void see_tail(struct seen *seen, const struct space *space, const struct space_group *group,
                     const struct space_tail *tail)
{
    for (int r = 0; r < tail->recompute_count; r++) {
        const struct space_recompute *way = &tail->recomputes[r];
        for (int layers = way->layers_low; layers <= way->layers_high; layers++) {
            struct parallel plan = space_parallel(space, group, tail, way, layers);
            assert_int_equal(plan.recompute_layers, layers);
            for (int m = 0; m < tail->move_count; m++) {
                if (!(way->moves >> m & 1)) continue;
                for (int i = tail->moves[m].layers_low; i <= tail->moves[m].layers_high; i++) {
                    plan.offload = space_moved(&tail->moves[m], i);
                    see_plan(seen, &plan);
                }
            }
        }
    }
}

static void check_described(const struct space *space, const struct space_group *group,
                            const struct space_tails *tails)
{
    struct seen seen = {.zero_least = 3, .hold_ratio = 1, .in_flight_least = INT32_MAX};
    for (int i = 0; i < tails->count; i++)
        see_tail(&seen, space, group, &tails->tails[i]);
    if (seen.in_flight_least == INT32_MAX) seen.in_flight_least = 0;
    assert_true(tails->plan_count == seen.plan_count);
    assert_int_equal(tails->zero_least, seen.zero_least);
    assert_int_equal(tails->zero_most, seen.zero_most);
    assert_int_equal(tails->in_flight_least, seen.in_flight_least);
    assert_int_equal(tails->kinds, seen.kinds);
    assert_int_equal(tails->state_tiers, seen.state_tiers);
    assert_int_equal(tails->recomputes, !seen.keeps_all);
    assert_int_equal(tails->moves_activations, seen.moves_activations);
    assert_true(tails->hold_ratio == seen.hold_ratio);
    if (tails->count > 0) assert_int_equal(tails->accumulates, seen.accumulates);
}

static bool is_same_way(const struct space_recompute *a, const struct space_recompute *b)
{
    return a->recompute == b->recompute && a->classes == b->classes &&
           a->layers_low == b->layers_low && a->layers_high == b->layers_high &&
           a->moves == b->moves;
}

static void check_same(const struct space_tails *a, const struct space_tails *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->streams, b->streams);
    assert_int_equal(a->accumulates, b->accumulates);
    assert_true(a->plan_count == b->plan_count);
    for (int i = 0; i < a->count; i++) {
        const struct space_tail *x = &a->tails[i], *y = &b->tails[i];
        assert_true(x->vpp == y->vpp && x->schedule == y->schedule && x->zero == y->zero);
        assert_int_equal(x->in_flight, y->in_flight);
        assert_int_equal(x->recompute_count, y->recompute_count);
        assert_int_equal(x->move_count, y->move_count);
        for (int r = 0; r < x->recompute_count; r++)
            assert_true(is_same_way(&x->recomputes[r], &y->recomputes[r]));
        for (int m = 0; m < x->move_count; m++)
            assert_memory_equal(&x->moves[m].offload, &y->moves[m].offload,
                                sizeof x->moves[m].offload);
    }
}

static void check_space(struct search_request *request, int groups_least, unsigned kinds)
{
    struct arena arena = {0}, scratch = {0};
    struct memo *memo = memo_new(&arena, &scratch, request);
    const struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(&arena, request, &graphs);
    unsigned seen = 0;
    assert_true(space->group_count >= groups_least);
    for (int i = 0; i < space->group_count; i += 1 + space->group_count / 60) {
        const struct space_group *group = &space->groups[i];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        check_described(space, group, tails);
        struct space alone = *space;
        alone.tails = alone.ways = alone.splits = (struct index){0};
        check_same(tails, space_tails(&alone, &graphs, group));
        seen |= tails->kinds;
    }
    assert_int_equal(seen, kinds);
    arena_free(&scratch);
    arena_free(&arena);
}

static void tails_are_described_as_all_their_plans_are(void **state)
{
    unsigned all = PIPELINE_FUSED | PIPELINE_CHUNKED | PIPELINE_PARTED;
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", "meshwright", 64);
    check_space(&request, 50, all);
    request.pins.search_offload = true;
    check_space(&request, 50, all);
    pins_set(&request.pins, CHOICE_ZERO, 1, 3);
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    check_space(&request, 20, PIPELINE_FUSED);
    request = request_of(*state, "mixtral-8x7b", "dgx-h100-x2", "megatron-core", 64);
    check_space(&request, 50, PIPELINE_FUSED | PIPELINE_CHUNKED);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    check_space(&request, 50, PIPELINE_FUSED | PIPELINE_CHUNKED);
}

// The tails of one group of gpt2, in their order.
static const struct space_tails *tails_of(struct arena *arena, struct arena *scratch,
                                          struct search_request *request, int micro_batch)
{
    struct memo *memo = memo_new(arena, scratch, request);
    struct space_graphs *graphs = ARENA_NEW(arena, struct space_graphs, 1);
    *graphs = (struct space_graphs){memo_graph_of, memo};
    pins_set(&request->pins, CHOICE_MICRO_BATCH, micro_batch, micro_batch);
    pins_set(&request->pins, CHOICE_TP, 1, 1);
    pins_set(&request->pins, CHOICE_CP, 1, 1);
    pins_set(&request->pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    struct space *space = space_make(arena, request, graphs);
    assert_true(space->group_count >= 1);
    return space_tails(space, graphs, &space->groups[0]);
}

struct wanted_tail {
    enum schedule_kind schedule;
    int vpp, in_flight, zero;
};

static void check_tails(const struct space_tails *tails, const struct wanted_tail *wanted,
                        int count)
{
    assert_int_equal(tails->count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(tails->tails[i].schedule, wanted[i].schedule);
        assert_int_equal(tails->tails[i].vpp, wanted[i].vpp);
        assert_int_equal(tails->tails[i].in_flight, wanted[i].in_flight);
        assert_int_equal(tails->tails[i].zero, wanted[i].zero);
    }
}

// Caps of four stages go from 4 by 5 to 7, of eight from 8 by 11 to 15; what is pinned is all there
// is. Fourteen chunks, of which four stages have three at most.
static void caps_and_chunks_are_those_of_the_stages(void **state)
{
    struct arena scratch = {0};
    struct search_request open = request_of(*state, "gpt2", "dgx-a100-80g", "meshwright", 128);
    pins_set(&open.pins, CHOICE_ZERO, 0, 0);
    struct search_request request = open;
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_ZB_AUTO, SCHEDULE_ZB_AUTO);
    check_tails(tails_of(*state, &scratch, &request, 1),
                (struct wanted_tail[]){{SCHEDULE_ZB_AUTO, 1, 4, 0},
                                       {SCHEDULE_ZB_AUTO, 1, 5, 0},
                                       {SCHEDULE_ZB_AUTO, 1, 7, 0}},
                3);
    pins_set(&request.pins, CHOICE_IN_FLIGHT, 5, 6);
    check_tails(tails_of(*state, &scratch, &request, 1),
                (struct wanted_tail[]){{SCHEDULE_ZB_AUTO, 1, 5, 0}, {SCHEDULE_ZB_AUTO, 1, 6, 0}},
                2);
    pins_clear(&request.pins, CHOICE_IN_FLIGHT);
    pins_set(&request.pins, CHOICE_PP, 8, 8);
    check_tails(tails_of(*state, &scratch, &request, 1),
                (struct wanted_tail[]){{SCHEDULE_ZB_AUTO, 1, 8, 0},
                                       {SCHEDULE_ZB_AUTO, 1, 11, 0},
                                       {SCHEDULE_ZB_AUTO, 1, 15, 0}},
                3);
    request = open;
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_INTERLEAVED, SCHEDULE_INTERLEAVED);
    check_tails(
        tails_of(*state, &scratch, &request, 1),
        (struct wanted_tail[]){{SCHEDULE_INTERLEAVED, 2, 0, 0}, {SCHEDULE_INTERLEAVED, 3, 0, 0}},
        2);
    pins_set(&request.pins, CHOICE_VPP, 1, 2);
    check_tails(tails_of(*state, &scratch, &request, 1),
                (struct wanted_tail[]){{SCHEDULE_INTERLEAVED, 2, 0, 0}}, 1);
    arena_free(&scratch);
}

// Without a pipeline there is one schedule, the plain one or the first that is left; without ranks
// that have the same, one stage of ZeRO.
static void what_makes_no_difference_is_there_once(void **state)
{
    struct arena scratch = {0};
    struct search_request open = request_of(*state, "gpt2", "dgx-a100-80g", "meshwright", 128);
    struct search_request request = open;
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    check_tails(tails_of(*state, &scratch, &request, 2),
                (struct wanted_tail[]){{SCHEDULE_1F1B, 1, 0, 0},
                                       {SCHEDULE_1F1B, 1, 0, 1},
                                       {SCHEDULE_1F1B, 1, 0, 2},
                                       {SCHEDULE_1F1B, 1, 0, 3}},
                4);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_GPIPE, SCHEDULE_GPIPE);
    pins_set(&request.pins, CHOICE_ZERO, 1, 2);
    check_tails(tails_of(*state, &scratch, &request, 2),
                (struct wanted_tail[]){{SCHEDULE_GPIPE, 1, 0, 1}, {SCHEDULE_GPIPE, 1, 0, 2}}, 2);
    request = open;
    pins_set(&request.pins, CHOICE_PP, 8, 8);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    check_tails(tails_of(*state, &scratch, &request, 2),
                (struct wanted_tail[]){{SCHEDULE_1F1B, 1, 0, 0}}, 1);
    pins_set(&request.pins, CHOICE_ZERO, 1, 3);
    check_tails(tails_of(*state, &scratch, &request, 2),
                (struct wanted_tail[]){{SCHEDULE_1F1B, 1, 0, 1}}, 1);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_are_described_as_all_their_plans_are),
        cmocka_unit_test(caps_and_chunks_are_those_of_the_stages),
        cmocka_unit_test(what_makes_no_difference_is_there_once),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
