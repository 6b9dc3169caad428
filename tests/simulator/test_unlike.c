#include "simulator/unlike.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "models/import.h"
#include "plan/layout/rules.h"

#include <math.h>
#include <string.h>

// Replicas and stages on unlike devices, against steps of clusters whose devices are all alike.

struct question {
    struct evaluation_request request;
    struct cluster cluster;
    struct node_group groups[2];
};

// Two GPUs on two nodes of one, of which the second may be several times slower in all it does.
static struct question *question_of(struct arena *arena, double slower, int64_t batch)
{
    struct err err = {0};
    struct question *of = ARENA_NEW(arena, struct question, 1);
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g-x2", &err);
    struct evaluation_request *request = &of->request;
    request->model = model_load(arena, "gpt2", NULL, NULL, &err);
    request->stack = stack_load(arena, "meshwright", &err);
    request->fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    of->cluster = *cluster;
    for (int i = 0; i < 2; i++) {
        struct device *device = device_copy(arena, cluster->nodes[0].device);
        of->groups[i] = cluster->nodes[0];
        of->groups[i].count = of->groups[i].gpus = of->groups[i].gpus_per_host = 1;
        of->groups[i].device = device;
        if (i == 0) continue;
        for (int p = 0; p < PRECISION_COUNT; p++)
            device->peak_flop_per_s[p] /= slower;
        device->memory_bandwidth_bytes_per_s /= slower;
        device->launch_latency_s *= slower;
        device->exponential_per_s /= slower;
    }
    of->cluster.nodes = of->groups;
    of->cluster.node_group_count = of->cluster.node_count = of->cluster.rank_count = 2;
    request->cluster = &of->cluster;
    request->workload = (struct workload){.seq_len = 1024,
                                          .global_batch = batch,
                                          .precision = PRECISION_BF16,
                                          .optimizer = OPTIMIZER_ADAMW};
    struct parallel *parallel = &request->parallel;
    for (int i = 0; i < AXIS_COUNT; i++)
        parallel->degree[i] = 1;
    parallel->vpp = parallel->micro_batch = 1;
    parallel->recompute_layers = -1;
    parallel->schedule = SCHEDULE_1F1B;
    parallel->passes = request->stack->passes;
    parallel_default_order(parallel);
    return of;
}

static const struct evaluation *play(struct arena *arena, const struct question *of)
{
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    bool done = evaluate(arena, &scratch, &of->request, evaluation, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    arena_free(&scratch);
    return evaluation;
}

static double step_s(struct arena *arena, const struct question *of)
{
    return play(arena, of)->prediction.step_s;
}

static struct question *replicas(struct arena *arena, double slower, int batch, int first)
{
    struct question *of = question_of(arena, slower, batch);
    int *counts = ARENA_NEW(arena, int, 2);
    counts[0] = first;
    counts[1] = batch - first;
    of->request.parallel.degree[AXIS_DP] = 2;
    of->request.parallel.replica_count = 2;
    of->request.parallel.replica_micro_batches = counts;
    return of;
}

// Both devices as slow as the second.
static double slow_pair_s(struct arena *arena, double slower, int64_t batch)
{
    struct question *of = question_of(arena, slower, batch);
    of->groups[0] = of->groups[1];
    of->request.parallel.degree[AXIS_DP] = 2;
    return step_s(arena, of);
}

static void equal_numbers_are_no_numbers(void **state)
{
    struct question *named = replicas(*state, 1, 8, 4), *plain = question_of(*state, 1, 8);
    plain->request.parallel.degree[AXIS_DP] = 2;
    const struct cost *a = &play(*state, named)->prediction.cost;
    const struct cost *b = &play(*state, plain)->prediction.cost;
    assert_true(a->step_s == b->step_s && a->update_s == b->update_s);
    assert_true(fabs(a->compute_s - b->compute_s) < 1e-12);
    assert_true(fabs(a->bubble_s - b->bubble_s) < 1e-12);
}

// A step is as long as that of the replica that is done last: of slow devices alone with as many
// micro-batches, and longer by what the fast one takes more.
static void a_step_ends_with_the_replica_that_is_done_last(void **state)
{
    const double slower = 3;
    struct question *fast = question_of(*state, 1, 2), *faster = question_of(*state, 1, 4);
    fast->request.parallel.degree[AXIS_DP] = faster->request.parallel.degree[AXIS_DP] = 2;
    double fast_s = step_s(*state, faster) - step_s(*state, fast);  // of one more micro-batch
    double slow_s = slow_pair_s(*state, slower, 4) - slow_pair_s(*state, slower, 2);
    assert_true(slow_s > 2 * fast_s);
    for (int first = 1; first < 16; first++) {
        int second = 16 - first;
        double expected_s =
            slow_pair_s(*state, slower, 2 * second) + fmax(0, first * fast_s - second * slow_s);
        double found_s = step_s(*state, replicas(*state, slower, 16, first));
        // What of the reduction the last backward hides differs between the devices.
        assert_true(fabs(found_s - expected_s) < 2 * fast_s);
        if (first * fast_s < second * slow_s - fast_s)
            assert_true(fabs(found_s - expected_s) < 1e-8);
    }
}

static void layers_of_slow_stages_count_as_many_times(void **state)
{
    const double slower = 2;
    double best_s = INFINITY;
    int best = 0, layers[2];
    for (layers[0] = 1; layers[0] < 12; layers[0]++) {
        struct question *of = question_of(*state, slower, 32);
        layers[1] = 12 - layers[0];
        of->request.parallel.degree[AXIS_PP] = 2;
        of->request.parallel.stage_layers = layers;
        of->request.parallel.stage_layers_count = 2;
        double s = step_s(*state, of);
        if (s < best_s) best_s = s, best = layers[0];
    }
    // With the head, some three layers' worth of work, on the slow device: about 10 of 12.
    assert_in_range(best, 9, 11);
    // The other way about the slow device has the embedding alone beside its layers.
    struct question *turned = question_of(*state, slower, 32);
    const struct node_group kept = turned->groups[0];
    turned->groups[0] = turned->groups[1];
    turned->groups[1] = kept;
    turned->request.parallel.degree[AXIS_PP] = 2;
    turned->request.parallel.stage_layers = (const int[]){6, 6};
    turned->request.parallel.stage_layers_count = 2;
    struct question *straight = question_of(*state, slower, 32);
    straight->request.parallel = turned->request.parallel;
    assert_true(step_s(*state, turned) < step_s(*state, straight));
}

static void parts_sum_to_the_step_and_memory_is_that_of_each_device(void **state)
{
    struct question *of = question_of(*state, 2, 16);
    struct device *small = device_copy(*state, of->groups[1].device);
    small->memory_bytes = 7000000000;
    of->groups[1].device = small;
    of->request.parallel.degree[AXIS_PP] = 2;
    const struct evaluation *found = play(*state, of);
    assert_true(fabs(cost_parts_sum(&found->prediction.cost) / found->prediction.step_s - 1) <
                1e-9);
    assert_int_equal(found->worst_stage, 1);
    assert_int_equal(found->prediction.device_bytes, small->memory_bytes);
    assert_int_equal(unlike_stage_bytes(&of->cluster, &found->program->mesh, 0),
                     of->groups[0].device->memory_bytes);
}

static void numbers_that_do_not_go_are_refused(void **state)
{
    static const struct {
        int first, zero;
        const char *text;
    } CASES[] = {
        {7, 0, NULL},
        {8, 0, "--replica-batches: 0 micro-batches for replica 1; it needs 1 at least"},
        {3, 3,
         "--replica-batches: not with --zero 2 and 3, which gather or scatter in every "
         "micro-batch"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena scratch = {0};
        struct err err = {0};
        struct evaluation evaluation = {0};
        struct question *of = replicas(*state, 2, 8, CASES[i].first);
        of->request.parallel.zero = CASES[i].zero;
        bool done = evaluate(*state, &scratch, &of->request, &evaluation, &err);
        assert_int_equal(done, CASES[i].text == NULL);
        assert_string_equal(err.text, CASES[i].text ? CASES[i].text : "");
        arena_free(&scratch);
    }
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    struct question *of = replicas(*state, 2, 8, 5);
    of->request.workload.global_batch = 9;
    assert_false(evaluate(*state, &scratch, &of->request, &evaluation, &err));
    assert_string_equal(err.text, "--replica-batches: 8 micro-batches of 1 are 8 sequences; the "
                                  "global batch is 9");
    arena_free(&scratch);
}

// Nodes of some kinds, of other devices or of one, and on other links, with so many ranks in all,
// and as many of each kind as are a multiple of `each`.
static void draw_cluster(struct arena *arena, struct draw *draw, int ranks, int each,
                         struct cluster *cluster)
{
    static const char *const FROM[] = {"dgx-a100-80g-x2", "dgx-h100-x2", "hgx-h800-x2"};
    int devices = draw_int(draw, 0, 1) ? 3 : 1;  // 1: alike
    struct err err = {0};
    *cluster = *cluster_load(arena, FROM[0], &err);
    cluster->nodes = ARENA_NEW(arena, struct node_group, ranks);
    cluster->node_group_count = cluster->node_count = 0;
    for (int left = ranks / each, first = draw_int(draw, 0, 2); left > 0; first++) {
        struct node_group *group = &cluster->nodes[cluster->node_group_count++];
        int own = left == ranks / each ? draw_int(draw, 1, left - 1) : draw_int(draw, 1, left);
        *group = cluster_load(arena, FROM[first % devices], &err)->nodes[0];
        do
            group->gpus = draw_int(draw, 1, own * each);
        while (own * each % group->gpus != 0);
        group->gpus_per_host = group->gpus;
        group->count = own * each / group->gpus;
        group->intra.bandwidth_bytes_per_s /= draw_int(draw, 1, 20);
        group->nics.bandwidth_bytes_per_s /= draw_int(draw, 1, 4);
        cluster->node_count += group->count;
        left -= own;
    }
    assert_string_equal(err.text, "");
    cluster->rank_count = ranks;
}

static void draw_plan(struct draw *draw, struct evaluation_request *request)
{
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_1F1B, SCHEDULE_GPIPE, SCHEDULE_ZB_H1,
                                                   SCHEDULE_INTERLEAVED};
    static const int TPS[] = {1, 2, 2, 4};
    struct parallel *parallel = &request->parallel;
    parallel->degree[AXIS_PP] = draw_int(draw, 2, 4);
    parallel->degree[AXIS_TP] = DRAW_ONE(draw, TPS);
    parallel->degree[AXIS_CP] = draw_int(draw, 0, 3) == 0 ? 2 : 1;
    parallel->degree[AXIS_DP] = draw_int(draw, 1, 3);
    parallel->sp = parallel->degree[AXIS_TP] > 1 && draw_int(draw, 0, 1);
    parallel->zero = draw_int(draw, 0, 1);
    parallel->micro_batch = draw_int(draw, 1, 2);
    parallel->schedule = DRAW_ONE(draw, SCHEDULES);
    if (parallel->schedule == SCHEDULE_INTERLEAVED) parallel->vpp = 2;
    if (draw_int(draw, 0, 2) == 0) request->workload.optimizer = OPTIMIZER_LAMB;
    request->workload.global_batch =
        (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch * parallel->degree[AXIS_PP] * 2;
}

// Each stage by its own links and devices, as by its own mesh.
static void the_same_plan_written_by_stages_has_the_same_price(void **state)
{
    enum { TRIALS = 40 };
    static const struct layout_rule AS_THE_TABLE[] = {
        {.operator= "layer.mlp.up", .axis = AXIS_TP, .dim = DIM_FFN, .is_of_stage = true}};
    struct draw draw = draw_start("the same plan by stages", 2);
    int apart = 0;
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena arena = {0};
        int ranks[4];
        struct question *of = question_of(&arena, 1, 1), by_stages;
        struct parallel *parallel = &of->request.parallel;
        draw_plan(&draw, &of->request);
        for (int s = 0; s < 4; s++)
            ranks[s] = (int)parallel_rank_count(parallel) / parallel->degree[AXIS_PP];
        // Every third on nodes of which some stage may have two kinds.
        int each = trial % 3 == 0 ? 1 : ranks[0];
        draw_cluster(&arena, &draw, ranks[0] * parallel->degree[AXIS_PP], each, &of->cluster);
        by_stages = *of;
        by_stages.request.parallel.stage_ranks = ranks;
        by_stages.request.parallel.stage_ranks_count = parallel->degree[AXIS_PP];
        double one_mesh_s = step_s(&arena, of);
        assert_true(step_s(&arena, &by_stages) == one_mesh_s);
        // A layout that is said of a stage alone keeps them apart.
        by_stages.request.parallel.layouts = AS_THE_TABLE;
        by_stages.request.parallel.layout_count = 1;
        if (parallel->degree[AXIS_TP] > 1 && each > 1) {
            const struct evaluation *found = play(&arena, &by_stages);
            assert_non_null(found->program->mesh.stage_ranks);
            assert_true(found->prediction.step_s == one_mesh_s);
            apart++;
        }
        arena_free(&arena);
    }
    assert_true(apart > TRIALS / 3);
}

// Two GPUs on fast links and two alike on slow ones: each stage works as where all links are its.
static void stages_of_like_devices_have_their_own_links(void **state)
{
    static const double FASTER[][2] = {{1, 1}, {1, 10}, {10, 10}};
    const struct evaluation *found[3];
    for (int i = 0; i < 3; i++) {
        struct question *of = question_of(*state, 1, 16);
        for (int g = 0; g < 2; g++) {
            of->groups[g] = of->groups[0];
            of->groups[g].gpus = of->groups[g].gpus_per_host = 2;
            of->groups[g].intra.bandwidth_bytes_per_s = FASTER[i][g] * 45e9;
        }
        of->cluster.rank_count = 4;
        of->request.parallel.degree[AXIS_PP] = of->request.parallel.degree[AXIS_TP] = 2;
        found[i] = play(*state, of);
    }
    const double *slow_s = found[0]->simulation->stage_busy_s;
    const double *own_s = found[1]->simulation->stage_busy_s;
    const double *fast_s = found[2]->simulation->stage_busy_s;
    assert_true(own_s[0] == slow_s[0] && own_s[1] == fast_s[1]);
    assert_true(fast_s[0] < slow_s[0] && fast_s[1] < slow_s[1]);
    for (int i = 1; i < 3; i++)
        assert_true(found[i]->prediction.step_s < found[i - 1]->prediction.step_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_numbers_are_no_numbers),
        cmocka_unit_test(a_step_ends_with_the_replica_that_is_done_last),
        cmocka_unit_test(layers_of_slow_stages_count_as_many_times),
        cmocka_unit_test(parts_sum_to_the_step_and_memory_is_that_of_each_device),
        cmocka_unit_test(numbers_that_do_not_go_are_refused),
        cmocka_unit_test(the_same_plan_written_by_stages_has_the_same_price),
        cmocka_unit_test(stages_of_like_devices_have_their_own_links),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
