#include "planner/meshes.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/uneven_split.h"
#include "topologies/cluster.h"

#include <math.h>

// Meshes of stages: what is pinned is kept and split as the best of all splits, what is searched is
// never worse than one mesh for all, and is better where the links ask for it.

// Four GPUs on fast links and four on slow ones, all alike.
static struct search_request request_of(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3, .nothing = SEARCH_FITS_ONLY};
    struct cluster *cluster = cluster_load(arena, "h100-a100-mixed", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(cluster->node_group_count, 2);
    for (int i = 0; i < 2; i++) {
        cluster->nodes[i].gpus = cluster->nodes[i].gpus_per_host = 4;
        cluster->nodes[i].device = cluster->nodes[1].device;
    }
    cluster->nodes[1].intra.bandwidth_bytes_per_s = 12e9;
    cluster->rank_count = 8;
    request.cluster = cluster;
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.stack = stack_load(arena, "meshwright", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 4096,
                                         .global_batch = 32,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

static struct search_result search(struct arena *arena, const struct search_request *request,
                                   struct meshes_answer *answer)
{
    struct err err = {0};
    struct search_result result = {0};
    bool done = meshes_search(arena, request, &result, answer, &err);
    assert_string_equal(err.text, "");
    assert_true(done && result.best_count > 0 && answer->is_asked);
    assert_int_equal(result.status, SEARCH_FEASIBLE);
    assert_true(result.bound_s == 0);
    return result;
}

static void pinned_meshes_have_the_layers_of_the_best_of_all_splits(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b");
    request.pins.stage_tp = (const int[]){4, 2};
    request.pins.stage_tp_count = 2;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    struct meshes_answer answer;
    struct search_result result = search(*state, &request, &answer);
    struct parallel best = result.best[0].parallel;
    assert_true(parallel_has_meshes(&best));
    assert_int_equal(best.stage_tp[0], 4);
    assert_int_equal(best.stage_tp[1], 2);
    assert_int_equal(best.degree[AXIS_TP], 4);
    assert_int_equal(best.degree[AXIS_PP], 2);
    struct uneven_split split = {.arena = *state, .request = &request};
    double best_s = INFINITY;
    for (int first = 8; first < 28; first++) {
        struct candidate played;
        best.stage_layers = (const int[]){first, 32 - first};
        best.stage_layers_count = 2;
        if (uneven_play(&split, &best, &played)) best_s = fmin(best_s, played.cost.step_s);
    }
    assert_true(result.best[0].cost.step_s <= best_s * (1 + 1e-9));
    // One mesh for both lets the slow links sum over four ranks.
    assert_true(answer.has_alike && answer.alike_s > result.best[0].cost.step_s);
}

// A stage with dp of its own can shard what the seed, which had none, could not.
static void no_plan_beside_the_best_is_faster(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b");
    request.pins.stage_tp = (const int[]){4, 2};
    request.pins.stage_tp_count = 2;
    struct meshes_answer answer;
    struct search_result result = search(*state, &request, &answer);
    const struct parallel *best = &result.best[0].parallel;
    struct uneven_split split = {.arena = *state, .request = &request};
    int played_count = 0;
    for (int size = 1; size <= 32; size *= 2) {
        for (int zero = 0; zero < 4; zero++) {
            struct parallel beside = *best;
            struct candidate played;
            bool is_beside = (size == best->micro_batch) != (zero == best->zero);
            bool is_near = size * 2 >= best->micro_batch && size <= best->micro_batch * 2;
            if (!is_beside || !is_near) continue;
            beside.micro_batch = size;
            beside.zero = zero;
            if (!uneven_play(&split, &beside, &played)) continue;
            played_count++;
            assert_true(played.cost.step_s >= result.best[0].cost.step_s * (1 - 1e-9));
        }
    }
    assert_true(played_count > 1);
}

static void a_search_of_meshes_is_never_worse(void **state)
{
    struct search_request request = request_of(*state, "gpt2-large"), with = request;
    struct err err = {0};
    struct search_result alike = {0};
    struct meshes_answer answer;
    with.pins.search_stage_tp = true;
    request.workload.seq_len = with.workload.seq_len = 1024;
    assert_true(search_plans(*state, &request, &alike, &err));
    struct search_result result = search(*state, &with, &answer);
    assert_true(result.best[0].cost.step_s <= alike.best[0].cost.step_s * (1 + 1e-9));
}

static void slow_links_get_less_of_tp(void **state)
{
    struct search_request request = request_of(*state, "llama-2-13b");
    struct meshes_answer answer;
    request.pins.search_stage_tp = true;
    pins_set(&request.pins, CHOICE_TP, 2, 8);
    struct search_result result = search(*state, &request, &answer);
    const struct parallel *best = &result.best[0].parallel;
    assert_true(parallel_has_meshes(best));
    assert_true(best->stage_tp[best->stage_tp_count - 1] < best->stage_tp[0]);
    assert_true(answer.has_alike);
    assert_true(answer.alike_s > 1.03 * result.best[0].cost.step_s);
}

static void check_error(struct search_request request, int count, const int *tps, const char *text)
{
    struct arena arena = {0};
    struct search_result result = {0};
    struct meshes_answer answer;
    struct err err = {0};
    request.pins.stage_tp = tps;
    request.pins.stage_tp_count = count;
    assert_false(meshes_search(&arena, &request, &result, &answer, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
    arena_free(&arena);
}

static void what_cannot_be_is_refused(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b");
    check_error(request, 2, (const int[]){4, 3},
                "--stage-tp: 3 for stage 1 does not divide 4, the largest");
    struct search_request other = request;
    other.workload.global_batch = 31;
    check_error(other, 2, (const int[]){4, 2},
                "--stage-tp: no micro-batch that all of these stages can split divides the "
                "sequences of a replica");
    // Of what follows from the numbers no other values are told: they are no option's.
    check_error(request, 3, (const int[]){4, 2, 2},
                "--stage-tp: --pp 3: no plan of batch 32 on 8 GPUs has it");
    check_error(request, 2, (const int[]){3, 3},
                "--stage-tp: --tp 3: 32 heads cannot be split by 3; the nearest that divide are 2 "
                "and 4");
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    check_error(request, 2, (const int[]){4, 2},
                "--stage-tp: the largest is 4, which --tp does not allow; they are one");
    pins_clear(&request.pins, CHOICE_TP);
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    check_error(request, 2, (const int[]){4, 2},
                "--stage-tp: 2 numbers, which --pp does not allow; one a stage");
    struct err err = {0};
    request.stack = stack_load(*state, "megatron-core", &err);
    check_error(
        request, 2, (const int[]){4, 2},
        "--stage-tp: stack megatron-core gives all stages one mesh; --stack meshwright runs "
        "unlike ones");
}

static void one_gpu_has_one_mesh(void **state)
{
    struct search_request request = request_of(*state, "gpt2");
    struct err err = {0};
    struct cluster *alone = cluster_load(*state, "dgx-h100", &err);
    assert_true(cluster_take_gpus(alone, 1, &err));
    request.cluster = alone;
    request.workload.seq_len = 1024;
    request.pins.search_stage_tp = true;
    struct meshes_answer answer;
    struct search_result result = search(*state, &request, &answer);
    assert_int_equal(result.best[0].parallel.stage_tp_count, 0);
}

// Pinned numbers of ranks are kept, whichever degrees are searched; a plan with one mesh is beside
// them. Fewer layers on the stage with fewer ranks are found.
static void pinned_ranks_are_kept(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b");
    request.pins.stage_ranks = (const int[]){6, 2};
    request.pins.stage_ranks_count = 2;
    request.workload.global_batch = 48;
    struct meshes_answer answer;
    struct search_result result = search(*state, &request, &answer);
    const struct parallel *best = &result.best[0].parallel;
    assert_int_equal(best->stage_ranks_count, 2);
    assert_int_equal(best->stage_ranks[0], 6);
    assert_int_equal(best->stage_ranks[1], 2);
    assert_int_equal(best->degree[AXIS_PP], 2);
    assert_int_equal(parallel_rank_count(best), 8);
    assert_true(best->stage_layers_count == 2 && best->stage_layers[0] > best->stage_layers[1]);
    assert_true(answer.has_alike && answer.alike.stage_ranks_count == 0);
    struct uneven_split split = {.arena = *state, .request = &request};
    for (int first = best->stage_layers[0] - 3; first <= best->stage_layers[0] + 3; first++) {
        struct parallel beside = *best;
        struct candidate played;
        beside.stage_layers = (const int[]){first, 32 - first};
        if (!uneven_play(&split, &beside, &played)) continue;
        assert_true(played.cost.step_s >= result.best[0].cost.step_s * (1 - 1e-9));
    }
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    result = search(*state, &request, &answer);
    best = &result.best[0].parallel;
    assert_int_equal(best->degree[AXIS_TP], 2);
    assert_int_equal(best->degree[AXIS_DP], 3);
    assert_int_equal(best->micro_batch, 2);
    assert_int_equal(best->zero, 1);
}

// Nothing joins nodes of this kind: what is made up to compare with is one larger node, and the
// plan that is found the one that is found where there is a network that nobody uses.
static void ranks_of_one_machine_need_no_network(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "llama-2-7b"), alone = request;
    struct cluster *machine = cluster_load(*state, "dgx-h100", &err);
    machine->network.kind = "none";
    machine->nodes[0].nics.count = 0;
    alone.cluster = machine;
    request.cluster = cluster_load(*state, "dgx-h100", &err);
    for (int is_searched = 0; is_searched < 2; is_searched++) {
        struct meshes_answer answer;
        request.pins.stage_ranks = alone.pins.stage_ranks = (const int[]){6, 2};
        request.pins.stage_ranks_count = alone.pins.stage_ranks_count = is_searched ? 0 : 2;
        request.pins.search_stage_ranks = alone.pins.search_stage_ranks = is_searched;
        request.workload.global_batch = alone.workload.global_batch = 48;
        pins_set(&request.pins, CHOICE_PP, 2, 2);
        pins_set(&alone.pins, CHOICE_PP, 2, 2);
        struct search_result found = search(*state, &request, &answer);
        struct search_result same = search(*state, &alone, &answer);
        assert_int_equal(candidate_compare(OBJECTIVE_TIME, &found.best[0], &same.best[0]), 0);
    }
}

static void refuse_ranks(struct arena *arena, const struct search_request *request,
                         const char *text)
{
    struct err err = {0};
    struct search_result result = {0};
    struct meshes_answer answer;
    assert_false(meshes_search(arena, request, &result, &answer, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void ranks_that_cannot_be_are_refused(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b"), other;
    request.pins.stage_ranks = (const int[]){6, 2, 1};
    request.pins.stage_ranks_count = 2;
    other = request;
    other.pins.stage_ranks_count = 3;
    refuse_ranks(*state, &other, "--stage-ranks: 9 ranks in all, the cluster has 8 GPUs");
    other = request;
    pins_set(&other.pins, CHOICE_PP, 3, 3);
    refuse_ranks(*state, &other,
                 "--stage-ranks: 2 numbers, which --pp does not allow; one a stage");
    other = request;
    pins_set(&other.pins, CHOICE_TP, 4, 4);
    refuse_ranks(*state, &other,
                 "--stage-ranks: 6 for stage 0 is no multiple of its tp 4 times cp 1");
    // Of seeds with as many ranks in all stages the reason is told once.
    other = request;
    other.pins.stage_ranks = (const int[]){4, 4};
    pins_set(&other.pins, CHOICE_SP_H, 2, 2);
    refuse_ranks(*state, &other,
                 "--sp-h 2: llama-2-7b has no images to split; with all else as it is, --sp-h may "
                 "be 1");
    // A batch of 32 does not divide by the dp of 6 or 3 of the first stage.
    refuse_ranks(*state, &request,
                 "--stage-ranks: no micro-batch that all of these stages can split divides the "
                 "sequences of a replica");
    // Of what is pinned the part is told that does not divide.
    other.pins = request.pins;
    other.pins.stage_ranks = (const int[]){2, 6};
    pins_set(&other.pins, CHOICE_TP, 1, 1);
    pins_set(&other.pins, CHOICE_MICRO_BATCH, 7, 7);
    refuse_ranks(*state, &other,
                 "--stage-ranks: 14 sequences a round (dp 2, micro-batch 7) do not divide into 6 "
                 "parts, one for each replica of stage 1 (tp 1, cp 1)");
    pins_set(&other.pins, CHOICE_MICRO_BATCH, 3, 3);
    refuse_ranks(*state, &other,
                 "--stage-ranks: 6 sequences a round (dp 2, micro-batch 3) do not divide the "
                 "batch of 32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_meshes_have_the_layers_of_the_best_of_all_splits),
        cmocka_unit_test(no_plan_beside_the_best_is_faster),
        cmocka_unit_test(a_search_of_meshes_is_never_worse),
        cmocka_unit_test(slow_links_get_less_of_tp),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(one_gpu_has_one_mesh),
        cmocka_unit_test(pinned_ranks_are_kept),
        cmocka_unit_test(ranks_of_one_machine_need_no_network),
        cmocka_unit_test(ranks_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
