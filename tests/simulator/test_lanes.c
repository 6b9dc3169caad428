#include "simulator/lanes.h"
#include "tests/support/test.h"

#include "models/import.h"

// Which ranks of a plan move in step, worked by hand: two nodes of eight, tp 2 innermost, then dp
// 4, then pp 2. Rank 13 is 8 + 2 * 2 + 1: the second of its pair in pipeline 2 on stage 1.

enum { RANKS = 16, BATCH = 32 };

struct question {
    struct evaluation_request request;
    struct evaluation evaluation;
};

static struct question *ask(struct arena *arena)
{
    struct question *question = ARENA_NEW(arena, struct question, 1);
    struct evaluation_request *request = &question->request;
    struct err err = {0};
    struct arena scratch = {0};
    struct parallel parallel = {.vpp = 1, .schedule = SCHEDULE_1F1B, .micro_batch = 2};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_TP] = parallel.degree[AXIS_PP] = 2;
    parallel.degree[AXIS_DP] = 4;
    parallel_default_order(&parallel);
    request->model = model_load(arena, "gpt2", NULL, NULL, &err);
    request->cluster = cluster_load(arena, "dgx-a100-80g-x2", &err);
    request->stack = stack_load(arena, "megatron-core", &err);
    request->fabrics = fabrics_load(arena, &err);
    request->workload =
        (struct workload){.seq_len = 1024, .global_batch = BATCH, .precision = PRECISION_BF16};
    request->parallel = parallel;
    assert_true(evaluate(arena, &scratch, request, &question->evaluation, &err));
    assert_string_equal(err.text, "");
    arena_free(&scratch);
    return question;
}

static struct lanes *make(struct arena *arena, const struct injection_cause *causes, int count,
                          bool keep_apart)
{
    const struct question *question = ask(arena);
    struct lanes *lanes =
        lanes_make(arena, &question->request, &question->evaluation, causes, count, keep_apart);
    assert_int_equal(lanes->stage_count, 2);
    assert_int_equal(lanes->pipeline_count, 4);
    assert_ptr_equal(lanes->prices[0], question->evaluation.price);
    return lanes;
}

static void every_rank_has_its_place(void **state)
{
    const struct lanes *lanes = make(*state, NULL, 0, false);
    int seen[RANKS] = {0};
    assert_int_equal(lanes_group_size(lanes, 0), 2);
    for (int pipeline = 0; pipeline < 4; pipeline++) {
        for (int stage = 0; stage < 2; stage++) {
            int ranks[2];
            lanes_group_ranks(lanes, pipeline, stage, ranks);
            for (int i = 0; i < 2; i++) {
                int p, s;
                assert_int_equal(ranks[i], 8 * stage + 2 * pipeline + i);
                lanes_place(lanes, ranks[i], &p, &s);
                assert_int_equal(p, pipeline);
                assert_int_equal(s, stage);
                seen[ranks[i]]++;
            }
        }
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(seen[rank], 1);
    // Nothing is injected: all pipelines are one lane, of 32 / 4 / 2 micro-batches.
    assert_int_equal(lanes->count, 1);
    assert_int_equal(lanes->list[0].pipeline_count, 4);
    assert_int_equal(lanes->list[0].micro_batch_count, 4);
    assert_int_equal(lanes->price_count, 1);
    for (int pipeline = 0; pipeline < 4; pipeline++)
        assert_false(lanes_is_concerned(lanes, pipeline));
}

// The slower of two causes of rank 5 counts, which is of pipeline 2 on stage 0.
static void the_pipeline_of_a_slow_rank_is_a_lane_of_its_own(void **state)
{
    const struct injection_cause causes[] = {
        {.kind = INJECT_RANK, .first = 5, .last = 5, .factor = 1.5},
        {.kind = INJECT_RANK, .first = 4, .last = 5, .factor = 1.25}};
    struct lanes *lanes = make(*state, causes, 2, false);
    assert_true(lanes_rank_slowdown(causes, 2, 3) == 1 && lanes_rank_slowdown(causes, 2, 6) == 1);
    assert_true(lanes_rank_slowdown(causes, 2, 4) == 1.25);
    assert_true(lanes_rank_slowdown(causes, 2, 5) == 1.5);
    assert_int_equal(lanes->count, 2);
    for (int pipeline = 0; pipeline < 4; pipeline++) {
        assert_int_equal(lanes->lane_of[pipeline], pipeline == 2);
        assert_int_equal(lanes_is_concerned(lanes, pipeline), pipeline == 2);
    }
    assert_int_equal(lanes->list[0].pipeline_count, 3);
    assert_int_equal(lanes->list[1].pipeline_count, 1);
    assert_int_equal(lanes->pipeline_of[1], 2);
    assert_true(lanes->list[1].stages[0].slowdown == 1.5);
    assert_true(lanes->list[1].stages[1].slowdown == 1);
    assert_true(lanes->list[0].stages[0].slowdown == 1);
    lanes_show(*state, lanes, causes, 2);
    const struct lane_stage *slow = lanes->list[1].stages, *calm = lanes->list[0].stages;
    assert_int_equal(slow[0].shown_count, 2);
    assert_int_equal(slow[0].shown[0], 4);
    assert_int_equal(slow[0].shown[1], 5);
    assert_true(slow[0].shown_slowdown[0] == 1.25 && slow[0].shown_slowdown[1] == 1.5);
    assert_int_equal(slow[1].shown_count, 1);
    assert_int_equal(slow[1].shown[0], 12);
    assert_int_equal(calm[0].shown_count, 1);
    assert_int_equal(calm[0].shown[0], 0);
    assert_int_equal(calm[1].shown[0], 8);
    assert_int_equal(make(*state, causes, 2, true)->count, 4);
}

// Ranks 8 to 15 are on node 1, which has all of stage 1: it has one more price, of the least that
// is left. What links between nodes lost is no matter to tp inside of one, what NVLink did is.
static void a_node_with_slower_links_has_a_price_of_its_own(void **state)
{
    const struct injection_cause causes[] = {
        {.kind = INJECT_NIC, .first = 1, .last = 1, .factor = 0.5},
        {.kind = INJECT_NIC, .first = 1, .last = 1, .factor = 0.25},
        {.kind = INJECT_LINK, .first = 1, .last = 1, .factor = 0.5}};
    const struct lanes *nics = make(*state, causes, 2, false);
    assert_int_equal(nics->count, 1);
    assert_int_equal(nics->price_count, 2);
    assert_int_equal(nics->list[0].stages[0].price, 0);
    assert_int_equal(nics->list[0].stages[1].price, 1);
    assert_true(nics->groups[1].nic_ratio == 0.25 && nics->groups[1].link_ratio == 0);
    assert_true(nics->groups[0].nic_ratio == 0);
    assert_int_equal(nics->groups[7].node, 1);
    assert_true(lanes_is_concerned(nics, 3));
    const struct step_price *whole = nics->prices[0], *slow = nics->prices[1];
    assert_true(slow->hop_s > whole->hop_s);
    int class = whole->class_of[1];
    assert_true(slow->classes[class].gradient_reduce_s == whole->classes[class].gradient_reduce_s);
    // One device's half of NVLink: gradients are reduced over the four pipelines there.
    const struct lanes *links = make(*state, &causes[2], 1, false);
    assert_true(links->groups[1].link_ratio == 0.5);
    whole = links->prices[0], slow = links->prices[1];
    assert_true(slow->classes[class].gradient_reduce_s > whole->classes[class].gradient_reduce_s);
    assert_int_equal(links->stage_price[0], 0);
    assert_int_equal(links->stage_price[1], 1);
}

// The steps of stages on two nodes of one GPU each way, with so much of their links each.
static const struct lanes *apart(struct arena *arena, double first, double second,
                                 const struct injection_cause *cause)
{
    struct question *question = ask(arena);
    struct cluster *apart = cluster_copy_nodes(arena, question->request.cluster);
    struct node_group *nodes = ARENA_NEW(arena, struct node_group, 2);
    struct arena scratch = {0};
    struct err err = {0};
    assert_true(apart->node_group_count == 1 && apart->nodes[0].count == 2);
    nodes[0] = nodes[1] = apart->nodes[0];
    nodes[0].count = nodes[1].count = 1;
    nodes[0].intra.bandwidth_bytes_per_s *= first;
    nodes[1].intra.bandwidth_bytes_per_s *= second;
    apart->nodes = nodes;
    apart->node_group_count = 2;
    question->request.cluster = apart;
    assert_true(evaluate(arena, &scratch, &question->request, &question->evaluation, &err));
    arena_free(&scratch);
    return lanes_make(arena, &question->request, &question->evaluation, cause, cause != NULL,
                      false);
}

static double reduce_s(const struct lanes *lanes, int stage, int price)
{
    const struct step_price *found = lanes->prices[price];
    return found->classes[found->class_of[stage]].gradient_reduce_s;
}

// Links of node 1 have 0.4 of the bandwidth, those of node 0 half of theirs in the end: node 1
// stays as it was, node 0 is priced as one that always had half.
static void the_node_behind_a_slower_one_is_as_it_was(void **state)
{
    const struct injection_cause cause = {
        .kind = INJECT_LINK, .first = 0, .last = 0, .factor = 0.5};
    const struct lanes *lanes = apart(*state, 1, 0.4, &cause);
    const struct lanes *halved = apart(*state, 0.5, 0.4, NULL);
    const struct rank_group *groups = lanes->groups;
    assert_int_equal(lanes->stage_count, 2);
    assert_int_equal(groups[1].price, groups[1].base);
    assert_true(reduce_s(lanes, 0, groups[0].price) > 1.5 * reduce_s(lanes, 0, groups[0].base));
    for (int stage = 0; stage < 2; stage++)
        assert_true(reduce_s(lanes, stage, groups[stage].price) ==
                    reduce_s(halved, stage, halved->groups[stage].price));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_has_its_place),
        cmocka_unit_test(the_pipeline_of_a_slow_rank_is_a_lane_of_its_own),
        cmocka_unit_test(a_node_with_slower_links_has_a_price_of_its_own),
        cmocka_unit_test(the_node_behind_a_slower_one_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
