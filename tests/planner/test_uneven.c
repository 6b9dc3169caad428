#include "planner/uneven.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/uneven_split.h"
#include "reports/table/plan_json.h"

#include <math.h>
#include <string.h>

// The split of the planner against all splits played one by one.

static struct search_request request_of(struct arena *arena, int fast, int slow, int64_t batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3, .nothing = SEARCH_FITS_ONLY};
    struct cluster *cluster = cluster_load(arena, "h100-a100-mixed", &err);
    assert_string_equal(err.text, "");
    cluster->nodes[0].gpus = cluster->nodes[0].gpus_per_host = fast;
    cluster->nodes[1].gpus = cluster->nodes[1].gpus_per_host = slow;
    cluster->rank_count = fast + slow;
    request.cluster = cluster;
    request.model = model_load(arena, "gpt2-large", NULL, NULL, &err);
    request.stack = stack_load(arena, "meshwright", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 1024,
                                         .global_batch = batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    pins_set(&request.pins, CHOICE_TP, 1, 1);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    return request;
}

static struct search_result search(struct arena *arena, const struct search_request *request,
                                   struct uneven_answer *answer)
{
    struct err err = {0};
    struct search_result result = {0};
    bool done = uneven_search(arena, request, &result, answer, &err);
    assert_string_equal(err.text, "");
    assert_true(done && result.best_count > 0);
    assert_int_equal(result.status, SEARCH_FEASIBLE);
    assert_true(result.bounds_work && result.bound_s <= result.best[0].cost.step_s);
    for (int i = 0; i < result.best_count; i++)
        assert_true(pins_allow_all(&request->pins, &result.best[i].parallel, NULL));
    return result;
}

// 1 + 2 GPUs, three replicas: the two slow ones may differ, too.
static void micro_batches_are_those_of_the_best_of_all_splits(void **state)
{
    struct search_request request = request_of(*state, 1, 2, 11);
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    struct uneven_answer answer;
    struct search_result result = search(*state, &request, &answer);
    struct uneven_split split = {.arena = *state, .request = &request};
    double best_s = INFINITY;
    for (int a = 1; a < 10; a++) {
        for (int b = 1; a + b < 11; b++) {
            struct parallel parallel = result.best[0].parallel;
            struct candidate played;
            parallel.replica_count = 3;
            parallel.replica_micro_batches = (const int[]){a, b, 11 - a - b};
            assert_true(uneven_play(&split, &parallel, &played));
            best_s = fmin(best_s, played.cost.step_s);
        }
    }
    assert_true(fabs(result.best[0].cost.step_s / best_s - 1) < 1e-9);
    // 11 sequences cannot be split evenly; alone each kind can run them.
    assert_false(answer.has_even);
    assert_int_equal(answer.alone_count, 2);
    assert_true(answer.alone[0].is_found && answer.alone[0].step_s > best_s);
}

// Two stages in a pipeline, the layers of the first: the best of all splits, which is not even.
static int layers_of_the_best(struct arena *arena, struct search_request *request)
{
    pins_set(&request->pins, CHOICE_PP, 2, 2);
    pins_set(&request->pins, CHOICE_VPP, 1, 1);
    pins_set(&request->pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    struct uneven_answer answer;
    struct search_result result = search(arena, request, &answer);
    struct uneven_split split = {.arena = arena, .request = request};
    double best_s = INFINITY;
    int best = 0;
    for (int first = 1; first < 36; first++) {
        struct parallel parallel = result.best[0].parallel;
        struct candidate played;
        parallel.stage_layers_count = 2;
        parallel.stage_layers = (const int[]){first, 36 - first};
        if (!uneven_play(&split, &parallel, &played) || played.cost.step_s >= best_s) continue;
        best_s = played.cost.step_s;
        best = first;
    }
    assert_true(fabs(result.best[0].cost.step_s / best_s - 1) < 1e-9);
    assert_true(answer.has_even && answer.even_s > best_s);
    return best;
}

static void layers_are_those_of_the_best_of_all_splits(void **state)
{
    struct search_request request = request_of(*state, 1, 1, 16);
    assert_true(layers_of_the_best(*state, &request) > 20);
}

// Devices that are alike, of which the second pair has a twentieth of the links.
static void stages_on_slow_links_have_fewer_layers(void **state)
{
    struct search_request request = request_of(*state, 2, 2, 16);
    struct cluster slow = *request.cluster;
    struct node_group nodes[] = {slow.nodes[0], slow.nodes[0]};
    nodes[0].nics.bandwidth_bytes_per_s /= 50;  // slower still: tp stays inside nodes
    nodes[1].nics.bandwidth_bytes_per_s /= 50;
    nodes[1].intra.bandwidth_bytes_per_s /= 20;
    slow.nodes = nodes;
    request.cluster = &slow;
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    int first = layers_of_the_best(*state, &request);
    nodes[0].intra.bandwidth_bytes_per_s /= 20;
    nodes[1].intra.bandwidth_bytes_per_s *= 20;
    int second = layers_of_the_best(*state, &request);
    assert_true(first > second + 4);
}

// What crosses to the other region is as slow for the closed form wherever a stage lies.
static void two_regions_of_like_nodes_prove_nothing(void **state)
{
    struct search_request request = request_of(*state, 1, 1, 32);
    struct uneven_answer answer;
    struct err err = {0};
    request.cluster = cluster_load(*state, "tests/data/cluster_between.json", &err);
    assert_string_equal(err.text, "");
    (void)search(*state, &request, &answer);
    assert_false(answer.is_asked);
}

static void a_node_of_each_beats_either_and_an_even_split(void **state)
{
    struct search_request request = request_of(*state, 2, 2, 32);
    struct uneven_answer answer;
    struct search_result result = search(*state, &request, &answer);
    double best_s = result.best[0].cost.step_s;
    assert_true(answer.has_even && answer.even_s > best_s);
    for (int i = 0; i < 2; i++)
        assert_true(answer.alone[i].is_found && answer.alone[i].step_s > best_s);
    // No better than both kinds together could be.
    assert_true(1 / best_s <= 1 / answer.alone[0].step_s + 1 / answer.alone[1].step_s);
}

static void what_is_pinned_is_kept_and_alike_devices_are_left_to_the_search(void **state)
{
    static const int PINNED[] = {5, 3, 2, 2};
    struct search_request request = request_of(*state, 2, 2, 12);
    struct uneven_answer answer;
    struct err err = {0};
    request.pins.replica_count = 4;
    request.pins.replica_micro_batches = PINNED;
    struct search_result result = search(*state, &request, &answer);
    for (int r = 0; r < 4; r++)
        assert_int_equal(result.best[0].parallel.replica_micro_batches[r], PINNED[r]);
    assert_false(search_plans(*state, &request, &result, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    request.stack = stack_load(*state, "megatron-core", &(struct err){0});
    err = (struct err){0};
    assert_false(uneven_search(*state, &request, &result, &answer, &err));
    assert_string_equal(err.text, "--replica-batches: stack megatron-core gives all replicas as "
                                  "many micro-batches; --stack meshwright runs unlike numbers");
    struct err none = {0};
    request = request_of(*state, 2, 2, 12);
    request.cluster = cluster_load(*state, "dgx-h100", &none);
    request.workload.global_batch = 16;
    assert_true(uneven_search(*state, &request, &result, &answer, &none));
    assert_false(answer.is_asked);
}

// With as many seeds as are wanted one plan was 15.8 % slower than five.
static void the_best_is_one_however_many_are_wanted(void **state)
{
    struct search_request request = request_of(*state, 8, 8, 64);
    struct uneven_answer answer;
    struct err err = {0};
    request.model = model_load(*state, "gpt2-xl", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    request.pins = pins_none();
    pins_set(&request.pins, CHOICE_TP, 1, 1);
    request.top = 1;
    struct search_result one = search(*state, &request, &answer);
    request.top = 5;
    struct search_result five = search(*state, &request, &answer);
    assert_int_equal(one.best_count, 1);
    assert_int_equal(five.best_count, 5);
    assert_true(one.best[0].cost.step_s == five.best[0].cost.step_s);
}

// Stage 5 on the slow node needs most bytes, a stage of the fast one has least left.
static void the_stage_with_least_left_may_need_less_than_another(void **state)
{
    struct search_request request = request_of(*state, 8, 8, 96);
    struct err err = {0};
    request.model = model_load(*state, "gpt3-1.3b", NULL, NULL, &err);
    request.stack = stack_load(*state, "xla", &err);
    assert_string_equal(err.text, "");
    request.workload.seq_len = 1000;
    request.pins = pins_none();
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    pins_set(&request.pins, CHOICE_PP, 8, 8);
    pins_set(&request.pins, CHOICE_VPP, 2, 2);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 4, 4);
    struct search_result result = {0};
    assert_true(search_plans(*state, &request, &result, &err));
    assert_int_equal(result.status, SEARCH_FEASIBLE);
    assert_true(result.best[0].worst_stage < 4);
}

// What fits is asked of the devices that a stage is on: its file says so, however little others
// have.
static void a_stage_has_the_memory_of_its_own_devices(void **state)
{
    struct search_request request = request_of(*state, 2, 2, 24);
    struct cluster *cluster = cluster_copy_nodes(*state, request.cluster);
    struct device *small = ARENA_NEW(*state, struct device, 1);
    *small = *cluster->nodes[1].device;
    small->memory_bytes = 10000000000;
    cluster->nodes[1].device = small;
    request.cluster = cluster;
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    request.pins.stage_layers = (const int[]){34, 2};
    request.pins.stage_layers_count = 2;
    struct uneven_answer answer;
    struct search_result result = search(*state, &request, &answer);
    struct err err = {0};
    const struct candidate *best = &result.best[0];
    assert_int_equal(best->worst_stage, 1);
    assert_true(best->memory.reserved_bytes < small->memory_bytes);
    struct evaluation_request question;
    struct evaluation evaluation;
    assert_true(plan_found_evaluate(*state, &request, &result, &best->parallel, NULL, &question,
                                    &evaluation, &err));
    assert_true(evaluation.stage_memory[0].reserved_bytes > small->memory_bytes);
    const char *text = plan_found_document(*state, &result, &question, &evaluation);
    assert_non_null(strstr(text, "\"fits\": true"));
    assert_non_null(strstr(text, "\"device_bytes\": 10000000000"));
}

// Half of the layers are more than the small devices hold: what they lack room for goes to the
// large ones, and no stage is left with more than its devices have.
static void layers_go_where_there_is_room(void **state)
{
    struct search_request request = request_of(*state, 2, 2, 24);
    struct cluster *cluster = cluster_copy_nodes(*state, request.cluster);
    struct device *small = ARENA_NEW(*state, struct device, 1);
    *small = *cluster->nodes[1].device;
    small->memory_bytes = 6000000000;
    cluster->nodes[1].device = small;
    request.cluster = cluster;
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    pins_set(&request.pins, CHOICE_VPP, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    struct uneven_answer answer;
    struct search_result result = search(*state, &request, &answer);
    assert_false(answer.has_even);
    for (int i = 0; i < result.best_count; i++) {
        const struct candidate *found = &result.best[i];
        assert_int_equal(found->parallel.stage_layers_count, 2);
        assert_true(found->parallel.stage_layers[0] > found->parallel.stage_layers[1]);
        assert_true(found->memory.reserved_bytes <=
                    cluster->nodes[found->worst_stage].device->memory_bytes);
        struct uneven_split split = {.arena = *state, .request = &request};
        struct candidate even;
        struct parallel parallel = found->parallel;
        parallel.stage_layers_count = 0;
        parallel.stage_layers = NULL;
        assert_false(uneven_play(&split, &parallel, &even));
        assert_true(uneven_fit(&split, &parallel, &even));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_are_those_of_the_best_of_all_splits),
        cmocka_unit_test(layers_are_those_of_the_best_of_all_splits),
        cmocka_unit_test(stages_on_slow_links_have_fewer_layers),
        cmocka_unit_test(two_regions_of_like_nodes_prove_nothing),
        cmocka_unit_test(a_node_of_each_beats_either_and_an_even_split),
        cmocka_unit_test(what_is_pinned_is_kept_and_alike_devices_are_left_to_the_search),
        cmocka_unit_test(the_best_is_one_however_many_are_wanted),
        cmocka_unit_test(the_stage_with_least_left_may_need_less_than_another),
        cmocka_unit_test(a_stage_has_the_memory_of_its_own_devices),
        cmocka_unit_test(layers_go_where_there_is_room),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
