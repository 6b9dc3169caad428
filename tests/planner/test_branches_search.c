#include "planner/uneven.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/uneven_split.h"

#include <math.h>

// Branches side by side: taken where a step is shorter for it, left where it is not, and refused
// with the reason where there is none.

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        int64_t batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3, .nothing = SEARCH_FITS_ONLY};
    request.cluster = cluster_load(arena, cluster, &err);
    assert_string_equal(err.text, "");
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.stack = stack_load(arena, "meshwright", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 256,
                                         .global_batch = batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

static struct search_result search(struct arena *arena, struct search_request request,
                                   enum branches_wish wish, struct uneven_answer *answer)
{
    struct err err = {0};
    struct search_result result = {0};
    request.pins.branches = wish;
    assert_true(uneven_search(arena, &request, &result, answer, &err));
    assert_string_equal(err.text, "");
    assert_true(result.best_count > 0);
    return result;
}

// One sequence a step, and links too slow for anything but a pipeline: the way is what counts.
static void branches_are_taken_where_the_way_is_what_counts(void **state)
{
    struct search_request request = request_of(*state, "two-towers-2b", "rtx4090-pcie8", 1);
    struct uneven_answer answer, none;
    struct search_result chain = search(*state, request, BRANCHES_OFF, &none);
    struct search_result found = search(*state, request, BRANCHES_FREE, &answer);
    assert_false(none.branches.is_asked);
    assert_true(found.best[0].parallel.branches);
    assert_true(found.best[0].cost.step_s < 0.95 * chain.best[0].cost.step_s);
    assert_true(answer.branches.has_other && !answer.branches.other.branches);
    assert_true(answer.branches.other_s == chain.best[0].cost.step_s);
    assert_int_equal(found.status, SEARCH_FEASIBLE);
    assert_true(found.bounds_work && found.bound_s <= found.best[0].cost.step_s);
    // As good as each number of stages in front with layers dealt out evenly.
    struct uneven_split split = {.arena = *state, .request = &request};
    struct parallel beside = found.best[0].parallel;
    struct candidate played;
    beside.stage_layers_count = 0;
    assert_true(uneven_play(&split, &beside, &played));
    assert_true(found.best[0].cost.step_s <= played.cost.step_s);
}

// The best chains have two stages each, which leave a branch none for itself.
static void branches_that_are_wanted_have_stages_enough(void **state)
{
    struct search_request request = request_of(*state, "clip-vit-large-patch14", "dgx-h100", 64);
    struct uneven_answer answer;
    request.workload.seq_len = 77;
    struct search_result found = search(*state, request, BRANCHES_ON, &answer);
    assert_true(found.best[0].parallel.branches);
    assert_true(found.best[0].parallel.degree[AXIS_PP] >= 3);
}

// Fast links share the ranks out between replicas.
static void branches_are_left_where_they_do_not_pay(void **state)
{
    struct search_request request = request_of(*state, "two-towers-2b", "dgx-h100", 64);
    struct uneven_answer answer, none;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 8, 8);
    struct search_result chain = search(*state, request, BRANCHES_OFF, &none);
    struct search_result found = search(*state, request, BRANCHES_FREE, &answer);
    assert_false(found.best[0].parallel.branches);
    assert_true(found.best[0].cost.step_s == chain.best[0].cost.step_s);
    assert_int_equal(found.status, chain.status);
    assert_true(answer.branches.has_other && answer.branches.other.branches);
    assert_true(answer.branches.other_s > chain.best[0].cost.step_s);
    struct search_result wanted = search(*state, request, BRANCHES_ON, &answer);
    assert_true(wanted.best[0].parallel.branches);
    assert_true(wanted.best[0].cost.step_s >= chain.best[0].cost.step_s);
}

// On unlike devices: what is found without branches, unlike stages and replicas among it, or what
// is found with them, whichever is better; the other is told.
static void unlike_devices_take_the_better_of_both(void **state)
{
    for (int batch = 1, is_branched = 1; batch <= 16; batch *= 16, is_branched--) {
        struct search_request request =
            request_of(*state, "two-towers-2b", "h100-a100-mixed", batch);
        struct uneven_answer answer, none;
        pins_set(&request.pins, CHOICE_PP, 4, 4);
        pins_set(&request.pins, CHOICE_TP, 4, 4);
        pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
        pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
        pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
        struct search_result chain = search(*state, request, BRANCHES_OFF, &none);
        struct search_result tree = search(*state, request, BRANCHES_ON, &none);
        struct search_result found = search(*state, request, BRANCHES_FREE, &answer);
        double each_s[] = {chain.best[0].cost.step_s, tree.best[0].cost.step_s};
        assert_int_equal(found.best[0].parallel.branches, each_s[1] < each_s[0]);
        assert_int_equal(found.best[0].parallel.branches, is_branched);
        assert_true(found.best[0].cost.step_s == fmin(each_s[0], each_s[1]));
        assert_true(answer.branches.is_asked && answer.branches.has_other && answer.is_asked);
        assert_true(answer.branches.other_s == fmax(each_s[0], each_s[1]));
        assert_int_equal(answer.branches.other.branches, !is_branched);
    }
}

static void check_error(struct arena *arena, struct search_request request, const char *text)
{
    struct err err = {0};
    struct search_result result = {0};
    struct uneven_answer answer;
    request.pins.branches = BRANCHES_ON;
    assert_false(uneven_search(arena, &request, &result, &answer, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

// Stages of branches have tp of their own: what is pinned, and what a search is not worse for.
static void stages_of_branches_have_meshes_of_their_own(void **state)
{
    static const int TPS[] = {2, 1, 1, 2};
    struct search_request request = request_of(*state, "two-towers-2b", "dgx-h100", 32);
    struct uneven_answer answer;
    request.pins.stage_tp = TPS;
    request.pins.stage_tp_count = 4;
    struct search_result found = search(*state, request, BRANCHES_ON, &answer);
    for (int i = 0; i < found.best_count; i++) {
        const struct parallel *plan = &found.best[i].parallel;
        assert_true(plan->branches);
        assert_int_equal(plan->stage_tp_count, 4);
        for (int s = 0; s < 4; s++)
            assert_int_equal(plan->stage_tp[s], TPS[s]);
    }
    assert_true(answer.meshes.has_alike && answer.meshes.alike.branches);
    request.pins.stage_tp_count = 0;
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    struct search_result alike = search(*state, request, BRANCHES_ON, &answer);
    request.pins.search_stage_tp = true;
    found = search(*state, request, BRANCHES_ON, &answer);
    assert_true(found.best[0].parallel.branches);
    assert_true(found.best[0].cost.step_s <= alike.best[0].cost.step_s * (1 + 1e-9));
}

static void has_ranks(const struct parallel *plan, const int *ranks, int count)
{
    assert_int_equal(plan->stage_ranks_count, count);
    assert_memory_equal(plan->stage_ranks, ranks, (size_t)count * sizeof *ranks);
}

// Stages of branches have numbers of ranks of their own: what is pinned, with branches, without
// them, or as is faster.
static void stages_of_branches_have_ranks_of_their_own(void **state)
{
    static const int RANKS[] = {2, 1, 1, 2};
    struct err err = {0};
    struct search_request request = request_of(*state, "two-towers-2b", "rtx4090-pcie8", 8);
    struct cluster *six = cluster_load(*state, "rtx4090-pcie8", &err);
    assert_true(cluster_take_gpus(six, 6, &err));
    request.cluster = six;
    struct uneven_answer answer;
    request.pins.stage_ranks = RANKS;
    request.pins.stage_ranks_count = 4;
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    struct search_result chain = search(*state, request, BRANCHES_OFF, &answer);
    struct search_result tree = search(*state, request, BRANCHES_ON, &answer);
    assert_true(answer.meshes.has_alike && answer.meshes.alike.branches);
    struct search_result any = search(*state, request, BRANCHES_FREE, &answer);
    for (int i = 0; i < chain.best_count; i++)
        assert_false(chain.best[i].parallel.branches);
    for (int i = 0; i < tree.best_count; i++) {
        assert_true(tree.best[i].parallel.branches);
        has_ranks(&tree.best[i].parallel, RANKS, 4);
    }
    has_ranks(&any.best[0].parallel, RANKS, 4);
    double least_s = fmin(chain.best[0].cost.step_s, tree.best[0].cost.step_s);
    assert_true(any.best[0].cost.step_s <= least_s * (1 + 1e-9));
}

// Two sequences a step: the picture takes four ranks of tp, the text alone one. What was found is
// what its pin finds, and no worse than one mesh for all.
static void ranks_of_branches_are_searched(void **state)
{
    struct search_request request = request_of(*state, "two-towers-2b", "dgx-a100-80g", 2);
    struct uneven_answer answer;
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    pins_set(&request.pins, CHOICE_ZERO, 0, 0);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    struct search_result alike = search(*state, request, BRANCHES_FREE, &answer);
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, request, BRANCHES_FREE, &answer);
    const struct parallel *best = &found.best[0].parallel;
    assert_true(found.best[0].cost.step_s < alike.best[0].cost.step_s);
    assert_true(best->branches && best->stage_ranks_count == best->degree[AXIS_PP]);
    assert_true(meshes_largest(best->stage_ranks, best->stage_ranks_count) >
                meshes_smallest(best->stage_ranks, best->stage_ranks_count));
    assert_int_equal(parallel_rank_count(best), 8);
    struct search_result wanted = search(*state, request, BRANCHES_ON, &answer);
    assert_true(wanted.best[0].parallel.branches);
    assert_true(wanted.best[0].cost.step_s >= found.best[0].cost.step_s * (1 - 1e-9));
    request.pins.search_stage_ranks = false;
    request.pins.stage_ranks = best->stage_ranks;
    request.pins.stage_tp = best->stage_tp;
    request.pins.stage_ranks_count = request.pins.stage_tp_count = best->stage_ranks_count;
    struct search_result again = search(*state, request, BRANCHES_FREE, &answer);
    assert_true(found.best[0].cost.step_s <= again.best[0].cost.step_s * (1 + 1e-9));
}

// A rank a stage: layers no worse than the search of one mesh has found, and no numbers to be told.
static void numbers_that_are_alike_are_one_mesh(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "two-towers-2b", "rtx4090-pcie8", 1);
    struct cluster *six = cluster_load(*state, "rtx4090-pcie8", &err);
    assert_true(cluster_take_gpus(six, 6, &err));
    request.cluster = six;
    struct uneven_answer answer;
    struct search_result alike = search(*state, request, BRANCHES_FREE, &answer);
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, request, BRANCHES_FREE, &answer);
    const struct candidate *best = &found.best[0];
    assert_true(best->cost.step_s <= alike.best[0].cost.step_s);
    assert_true(best->parallel.branches && !parallel_has_meshes(&best->parallel));
    assert_true(answer.meshes.alike_s == best->cost.step_s);
}

static void what_cannot_be_is_said(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "llama-3-8b", "dgx-h100", 8);
    check_error(*state, request, "--branches: llama-3-8b is a chain of blocks, without branches");
    request.pins.search_stage_ranks = true;
    check_error(*state, request, "--branches: llama-3-8b is a chain of blocks, without branches");
    request = request_of(*state, "two-towers-2b", "dgx-h100", 8);
    request.stack = stack_load(*state, "megatron-core", &err);
    check_error(*state, request,
                "--branches: stack megatron-core has every stage hand on to the next; --stack "
                "meshwright runs branches side by side");
    request = request_of(*state, "two-towers-2b", "dgx-h100", 8);
    struct cluster *one = cluster_load(*state, "dgx-h100", &err);
    assert_true(cluster_take_gpus(one, 1, &err));
    request.cluster = one;
    check_error(*state, request,
                "--branches: takes 3 stages at least, for what is in front of a branch, the branch "
                "and what joins it, each of a GPU or more; there are 1");
    request = request_of(*state, "two-towers-2b", "dgx-h100", 8);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    request.pins.stage_layers = (const int[]){20, 19, 19, 19};
    request.pins.stage_layers_count = 4;
    check_error(*state, request,
                "--branches: with --pp 4 no stage has a branch for itself; the first one begins "
                "behind layer 40, where a stage has to begin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_taken_where_the_way_is_what_counts),
        cmocka_unit_test(branches_that_are_wanted_have_stages_enough),
        cmocka_unit_test(branches_are_left_where_they_do_not_pay),
        cmocka_unit_test(unlike_devices_take_the_better_of_both),
        cmocka_unit_test(stages_of_branches_have_meshes_of_their_own),
        cmocka_unit_test(stages_of_branches_have_ranks_of_their_own),
        cmocka_unit_test(ranks_of_branches_are_searched),
        cmocka_unit_test(numbers_that_are_alike_are_one_mesh),
        cmocka_unit_test(what_cannot_be_is_said),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
