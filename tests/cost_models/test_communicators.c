#include "cost_models/goodput.h"
#include "tests/support/test.h"

#include <math.h>

static struct communicators of_plan(const struct parallel *parallel)
{
    const struct graph graph = {.expert_count = parallel->degree[AXIS_EP] > 1 ? 8 : 0};
    const struct program program = {.graph = &graph,
                                    .parallel = *parallel,
                                    .mesh = mesh_make(parallel, 8),
                                    .shape = {.stage_count = parallel->degree[AXIS_PP]}};
    return communicators_of(&program);
}

static struct parallel ones(void)
{
    struct parallel parallel = {0};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    return parallel;
}

static void a_rank_joins_one_of_each_axis_and_that_of_all(void **state)
{
    (void)state;
    static const struct {
        int tp, pp, cp, dp, ep, count;
        double rank_sum;
    } CASES[] = {
        {1, 1, 1, 1, 1, 0, 0},
        // Data parallelism over all ranks is one and the same with all ranks.
        {1, 1, 1, 16, 1, 1, 16},
        {8, 1, 1, 4, 1, 3, 8 + 4 + 32},
        {4, 4, 1, 32, 1, 4, 4 + 4 + 32 + 512},
        // Gradients are reduced over data and context together.
        {2, 1, 4, 8, 1, 5, 2 + 4 + 8 + 32 + 64},
        // Experts split the replicas: each is on 2 of 8.
        {1, 2, 1, 8, 4, 5, 2 + 8 + 4 + 2 + 16},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct parallel parallel = ones();
        parallel.degree[AXIS_TP] = CASES[i].tp;
        parallel.degree[AXIS_PP] = CASES[i].pp;
        parallel.degree[AXIS_CP] = CASES[i].cp;
        parallel.degree[AXIS_DP] = CASES[i].dp;
        parallel.degree[AXIS_EP] = CASES[i].ep;
        struct communicators found = of_plan(&parallel);
        assert_int_equal(found.count, CASES[i].count);
        assert_true(found.rank_sum == CASES[i].rank_sum);
    }
}

// Of 2 and 6 ranks: those of the second stage join gradients, ZeRO's the same, tp and all of the
// stage, and beside these the pipeline and all ranks. The first stage's mesh is not theirs.
static void unlike_stages_have_groups_of_their_own(void **state)
{
    (void)state;
    static const int RANKS[] = {2, 6}, TPS[] = {1, 2};
    struct parallel parallel = ones();
    parallel.degree[AXIS_PP] = parallel.stage_ranks_count = parallel.stage_tp_count = 2;
    parallel.degree[AXIS_TP] = 2;
    parallel.degree[AXIS_DP] = 3;
    parallel.micro_batch = 2;
    parallel.zero = 1;
    parallel.stage_ranks = RANKS;
    parallel.stage_tp = TPS;
    struct communicators found = of_plan(&parallel);
    assert_int_equal(found.count, 5);
    assert_true(found.rank_sum == 2 + 3 + 6 + 2 + 8);
}

// 4 communicators of 552 ranks: 4 x 2.5 s + 552 x 0.01 s = 15.52 s more, and only where it is said.
static void a_restart_waits_for_them(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-h100-x64", &err);
    assert_string_equal(err.text, "");
    struct goodput_request request = {
        .cluster = cluster, .step_s = 1, .checkpoint_bytes = 1000000000};
    double plain_s = goodput_of(&request).restart_s;
    request.communicators = (struct communicators){4, 552};
    assert_true(goodput_of(&request).restart_s == plain_s);
    assert_false(goodput_is_told(&cluster->failures));
    cluster->failures.communicator_s = 2.5;
    cluster->failures.communicator_rank_s = 0.01;
    assert_true(goodput_is_told(&cluster->failures));
    struct goodput goodput = goodput_of(&request);
    assert_true(fabs(goodput.restart_s - plain_s - 15.52) < 1e-9);
    assert_true(fabs(goodput.communicators_s - 15.52) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_joins_one_of_each_axis_and_that_of_all),
        cmocka_unit_test(unlike_stages_have_groups_of_their_own),
        cmocka_unit_test(a_restart_waits_for_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
