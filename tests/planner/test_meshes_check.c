#include "planner/batch.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "tests/support/test.h"

// What pins of unlike stages have to be, each refusal with its words and the pins beside it that
// are right; and how large a batch an optimizer is known to bear.

static void numbers_of_stages_are_compared(void **state)
{
    static const int NUMBERS[] = {4, 2, 8, 3, 1};
    (void)state;
    assert_int_equal(meshes_smallest(NUMBERS, 1), 4);
    assert_int_equal(meshes_smallest(NUMBERS, 4), 2);
    assert_int_equal(meshes_smallest(NUMBERS, 5), 1);
    assert_int_equal(meshes_largest(NUMBERS, 1), 4);
    assert_int_equal(meshes_largest(NUMBERS, 2), 4);
    assert_int_equal(meshes_largest(NUMBERS, 5), 8);
}

// Two of cp. Stages of 4, 8 and 24 ranks with tp of 1, 4 and 2 have 2, 1 and 6 replicas.
static void degrees_are_those_of_the_stage_with_most_of_tp(void **state)
{
    int ranks[] = {4, 8, 24, 7}, tps[] = {1, 4, 2, 9};
    struct parallel parallel = {.stage_ranks = ranks, .stage_ranks_count = 3, .stage_tp = tps};
    (void)state;
    parallel.degree[AXIS_CP] = 2;
    assert_true(meshes_put_degrees(&parallel, 12));
    assert_int_equal(parallel.degree[AXIS_TP], 4);
    assert_int_equal(parallel.degree[AXIS_DP], 1);
    assert_int_equal(parallel.micro_batch, 12);
    // Of stages with as much of tp the first.
    ranks[2] = 16, tps[2] = 4;
    assert_true(meshes_put_degrees(&parallel, 12));
    assert_int_equal(parallel.degree[AXIS_DP], 1);
    ranks[1] = 16, ranks[2] = 8;
    assert_true(meshes_put_degrees(&parallel, 12));
    assert_int_equal(parallel.degree[AXIS_DP], 2);
    assert_int_equal(parallel.micro_batch, 6);
    // Sequences that three replicas do not share, ranks that tp and cp do not fill.
    ranks[2] = 24;
    assert_false(meshes_put_degrees(&parallel, 8));
    assert_true(meshes_put_degrees(&parallel, 6));
    ranks[0] = 3;
    assert_false(meshes_put_degrees(&parallel, 6));
}

static const int R_4_4[] = {4, 4}, R_4_2[] = {4, 2}, R_6_2[] = {6, 2}, R_2_6[] = {2, 6};
static const int T_2_4[] = {2, 4}, T_2_2[] = {2, 2}, T_3_4[] = {3, 4}, T_4_2_2[] = {4, 2, 2};

static const struct checked {
    const int *ranks, *tps;
    int rank_count, tp_count;
    bool searches, pins_pp, pins_tp, pins_cp, of_others, of_replicas, of_branches;
    const char *said;  // NULL: right
} CHECKED[] = {
    {.said = NULL},
    {.searches = true, .said = NULL},
    {.ranks = R_4_4, .rank_count = 2, .said = NULL},
    {.ranks = R_4_4, .rank_count = 2, .pins_pp = true, .said = NULL},
    {.ranks = R_6_2, .rank_count = 2, .tps = T_2_2, .tp_count = 2, .said = NULL},
    {.ranks = R_4_2,
     .rank_count = 2,
     .said = "--stage-ranks: 6 ranks in all, the cluster has 8 GPUs"},
    {.ranks = R_4_4,
     .rank_count = 2,
     .tps = T_4_2_2,
     .tp_count = 3,
     .said = "--stage-ranks: 2 numbers, and 3 of --stage-tp"},
    {.ranks = R_2_6,
     .rank_count = 2,
     .tps = T_2_4,
     .tp_count = 2,
     .said = "--stage-ranks: 6 for stage 1 is no multiple of its tp 4 times cp 1"},
    {.ranks = R_2_6, .rank_count = 2, .tps = T_2_2, .tp_count = 2, .said = NULL},
    {.ranks = R_2_6, .rank_count = 2, .pins_cp = true, .said = NULL},
    {.ranks = R_2_6,
     .rank_count = 2,
     .tps = T_2_2,
     .tp_count = 2,
     .pins_cp = true,
     .said = "--stage-ranks: 2 for stage 0 is no multiple of its tp 2 times cp 2"},
    {.ranks = R_2_6,
     .rank_count = 2,
     .pins_tp = true,
     .said = "--stage-ranks: 2 for stage 0 is no multiple of its tp 4 times cp 1"},
    {.ranks = R_4_4, .rank_count = 2, .pins_tp = true, .said = NULL},
    {.ranks = R_4_4,
     .rank_count = 1,
     .pins_pp = true,
     .said = "--stage-ranks: 1 numbers, which --pp does not allow; one a stage"},
    {.tps = T_2_4, .tp_count = 2, .pins_pp = true, .said = NULL},
    {.tps = T_4_2_2, .tp_count = 3, .said = NULL},
    {.tps = T_4_2_2,
     .tp_count = 3,
     .pins_pp = true,
     .said = "--stage-tp: 3 numbers, which --pp does not allow; one a stage"},
    {.tps = T_3_4,
     .tp_count = 2,
     .said = "--stage-tp: 3 for stage 0 does not divide 4, the largest"},
    {.tps = T_2_4, .tp_count = 2, .pins_tp = true, .said = NULL},
    {.tps = T_2_2,
     .tp_count = 2,
     .pins_tp = true,
     .said = "--stage-tp: the largest is 2, which --tp does not allow; they are one"},
    {.tps = T_2_4,
     .tp_count = 2,
     .of_others = true,
     .said = "--stage-tp: stack megatron-core gives all stages one mesh; --stack meshwright runs "
             "unlike ones"},
    {.ranks = R_4_4,
     .rank_count = 2,
     .of_others = true,
     .said = "--stage-ranks: stack megatron-core gives all stages one mesh; --stack meshwright "
             "runs unlike ones"},
    {.searches = true, .of_replicas = true, .said = "--stage-ranks: not with --replica-batches"},
    {.tps = T_2_4,
     .tp_count = 2,
     .of_replicas = true,
     .said = "--stage-tp: not with --replica-batches"},
    {.tps = T_2_4,
     .tp_count = 2,
     .of_branches = true,
     .said = "--branches: gpt2 is a chain of blocks, without branches"},
};

static void pins_of_unlike_stages_fit_each_other(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-a100-80g", &err);
    const struct stack *ours = stack_load(*state, "meshwright", &err);
    const struct stack *others = stack_load(*state, "megatron-core", &err);
    const struct model_config *model = model_load(*state, "gpt2", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    for (size_t i = 0; i < sizeof CHECKED / sizeof *CHECKED; i++) {
        const struct checked *of = &CHECKED[i];
        struct err refused = {0};
        struct search_request request = {.model = model,
                                         .cluster = cluster,
                                         .stack = of->of_others ? others : ours,
                                         .pins = pins_none()};
        struct pins *pins = &request.pins;
        pins->stage_ranks = of->ranks, pins->stage_ranks_count = of->rank_count;
        pins->stage_tp = of->tps, pins->stage_tp_count = of->tp_count;
        pins->search_stage_ranks = of->searches;
        pins->replica_count = of->of_replicas ? 2 : 0;
        pins->branches = of->of_branches ? BRANCHES_ON : BRANCHES_FREE;
        if (of->pins_pp) pins_set(pins, CHOICE_PP, 2, 2);
        if (of->pins_tp) pins_set(pins, CHOICE_TP, 4, 4);
        if (of->pins_cp) pins_set(pins, CHOICE_CP, 2, 2);
        bool is_right = meshes_check_pinned(&request, &refused);
        if (of->said) assert_string_equal(refused.text, of->said);
        assert_int_equal(is_right, !of->said);
        assert_int_equal(refused.kind, of->said ? ERR_USAGE : ERR_NONE);
        assert_int_equal(meshes_search_numbers(pins), of->searches || of->rank_count > 0);
    }
    // A range is no number, so that one rank of tp is all that is asked.
    struct search_request request = {
        .model = model, .cluster = cluster, .stack = ours, .pins = pins_none()};
    request.pins.stage_ranks = R_2_6, request.pins.stage_ranks_count = 2;
    pins_set(&request.pins, CHOICE_TP, 4, 8);
    assert_true(meshes_check_pinned(&request, &err));
}

static void networks_have_a_row_or_none(void **state)
{
    struct err err = {0};
    struct search_request request = {.cluster = cluster_load(*state, "dgx-a100-80g", &err),
                                     .fabrics = fabrics_load(*state, &err)};
    assert_true(meshes_have_network(&request));
    struct cluster other = *request.cluster;
    other.network.kind = "string and tins";
    request.cluster = &other;
    assert_false(meshes_have_network(&request));
}

static void batches_are_known_up_to_what_was_published(void **state)
{
    static const struct {
        enum optimizer optimizer;
        int64_t most;
        const char *name, *source;
        bool is_layer_wise;
    } KNOWN[] = {
        {OPTIMIZER_ADAMW, 8000, "adamw", "the practice before layer-wise optimizers", false},
        {OPTIMIZER_ADAM, 8000, "adam", "the practice before layer-wise optimizers", false},
        {OPTIMIZER_SGD, 8000, "sgd", "Goyal et al. 2017", false},
        {OPTIMIZER_LAMB, 32768, "lamb", "You et al. 2020", true},
        {OPTIMIZER_LARS, 32768, "lars", "You et al. 2017", true},
    };
    for (int i = 0; i < 5; i++) {
        struct workload workload = {.optimizer = KNOWN[i].optimizer, .global_batch = KNOWN[i].most};
        assert_int_equal(batch_limit(KNOWN[i].optimizer), KNOWN[i].most);
        assert_null(batch_warning(*state, &workload));
        workload.global_batch++;
        const char *wanted = arena_print(
            *state,
            "global batch %d is past the %d samples that %s is known to bear (%s): the model may "
            "end worse%s",
            (int)KNOWN[i].most + 1, (int)KNOWN[i].most, KNOWN[i].name, KNOWN[i].source,
            KNOWN[i].is_layer_wise ? "" : "; --optimizer lamb is known to bear more");
        assert_string_equal(batch_warning(*state, &workload), wanted);
    }
    // Steps round up.
    assert_int_equal(batch_iterations(100, 1, 10), 10);
    assert_int_equal(batch_iterations(101, 1, 10), 11);
    assert_int_equal(batch_iterations(100, 2.5, 10), 25);
    // Halves as long as they are whole, then doubles: of 12 there are 3, 6, 12 and on to 96.
    const struct workload few = {.optimizer = OPTIMIZER_SGD, .global_batch = 12};
    const struct workload many = {.optimizer = OPTIMIZER_SGD, .global_batch = 4000};
    assert_string_equal(batch_table(*state, &few, 960, 1), "batch  steps\n"
                                                           "    3    320\n"
                                                           "    6    160\n"
                                                           "   12     80  this\n"
                                                           "   24     40\n"
                                                           "   48     20\n"
                                                           "   96     10\n");
    const char *table = batch_table(*state, &many, 32000, 1);
    int past = 0;
    for (const char *at = table; (at = strstr(at, "past what sgd is known to bear")); at++)
        past++;
    assert_int_equal(past, 2);  // 16,000 and 32,000
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_stages_are_compared),
        cmocka_unit_test(degrees_are_those_of_the_stage_with_most_of_tp),
        cmocka_unit_test(pins_of_unlike_stages_fit_each_other),
        cmocka_unit_test(networks_have_a_row_or_none),
        cmocka_unit_test(batches_are_known_up_to_what_was_published),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
