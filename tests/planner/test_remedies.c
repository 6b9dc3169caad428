#include "planner/choice.h"
#include "planner/remedies.h"
#include "tests/support/test.h"

#include "core/units.h"

#include <time.h>

// What is said beside a plan that does not fit, asked again of the search.

static struct search_request request_of(struct arena *arena, const char *model, const char *name,
                                        int nodes)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_true(nodes == 0 || cluster_set_nodes(cluster, nodes, &err));
    struct search_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 2048, .global_batch = 64, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
        .nothing = SEARCH_FITS_ONLY,
    };
    assert_string_equal(err.text, "");
    return request;
}

// Beside a plan of 3.5 s and 99.5 GB.
static struct search_result remedies_of(struct arena *arena, const struct search_request *request)
{
    struct search_result result = {0};
    result.closest.cost.step_s = 3.5;
    result.closest.memory.reserved_bytes = 99500000000;
    remedies_find(arena, request, &result);
    assert_in_range(result.remedy_count, 1, 6);
    assert_string_equal(result.remedies[result.remedy_count - 1],
                        "devices with 92.7 GiB of memory");
    return result;
}

// A plan that fits, or NULL.
static const struct candidate *best_of(struct arena *arena, const struct search_request *request)
{
    struct search_result *result = ARENA_NEW(arena, struct search_result, 1);
    struct err err = {0};
    assert_true(search_plans(arena, request, result, &err) || err.kind != ERR_NONE);
    return result->best_count > 0 ? &result->best[0] : NULL;
}

// "needs 3 GiB reserved (+5.0 % time)" of the best plan that the request leaves.
static const char *words_of(struct arena *arena, const struct search_request *request)
{
    const struct candidate *best = best_of(arena, request);
    assert_non_null(best);
    return arena_print(arena, "needs %s reserved (%+.1f %% time)",
                       units_bytes(arena, (double)best->memory.reserved_bytes),
                       100 * (best->cost.step_s / 3.5 - 1));
}

static void is_pinned(struct search_request *request, enum choice choice, int value)
{
    pins_set(&request->pins, choice, value, value);
}

static void is_remedy(struct arena *arena, const char *found, const char *options,
                      const struct search_request *request)
{
    assert_string_equal(found, arena_print(arena, "%s %s", options, words_of(arena, request)));
}

// llama-2-7b, whole and with everything kept on each of 8 ranks: what is given up is named with its
// price, the cheapest first.
static void each_pin_is_given_up_alone(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b", "dgx-a100-80g", 1);
    is_pinned(&request, CHOICE_DP, 8);
    is_pinned(&request, CHOICE_ZERO, 1);
    is_pinned(&request, CHOICE_RECOMPUTE, RECOMPUTE_NONE);
    is_pinned(&request, CHOICE_MICRO_BATCH, 8);
    assert_null(best_of(*state, &request));
    struct search_result result = remedies_of(*state, &request);
    assert_int_equal(result.remedy_count, 6);
    struct search_request other = request;
    is_pinned(&other, CHOICE_MICRO_BATCH, 2);
    is_remedy(*state, result.remedies[0], "--micro-batch 2", &other);
    other = request;
    pins_clear(&other.pins, CHOICE_DP);
    is_remedy(*state, result.remedies[1], "--tp 2 --pp 1 --dp 4", &other);
    other = request;
    is_pinned(&other, CHOICE_RECOMPUTE, RECOMPUTE_FULL);
    is_remedy(*state, result.remedies[2], "--recompute full", &other);
    assert_memory_equal(result.remedies[3], "--offload activations:", 22);
    assert_memory_equal(result.remedies[4], "16 GPUs (--nodes 2) need ", 25);
    // They are the fastest, and as soon found, where the fewest bytes were wanted.
    struct search_request small = request;
    small.objective = OBJECTIVE_MEMORY;
    struct search_result same = remedies_of(*state, &small);
    assert_int_equal(same.remedy_count, result.remedy_count);
    for (int i = 0; i < 3; i++) {
        const char *end = strstr(result.remedies[i], " (");
        assert_memory_equal(same.remedies[i], result.remedies[i],
                            (size_t)(end - result.remedies[i]));
    }
    // What --offload asks for already is no pin; a context that was pinned is among the degrees.
    request.pins.search_offload = true;
    is_pinned(&request, CHOICE_CP, 1);
    result = remedies_of(*state, &request);
    for (int i = 0; i < result.remedy_count; i++)
        assert_null(strstr(result.remedies[i], "--offload"));
    assert_memory_equal(result.remedies[1], "--tp 2 --cp 1 --pp 1 --dp 4 needs ", 33);
}

// gpt3-175b has room on 5 nodes, not on 4. One node is followed by 2, 3 and 4 of them, 2 by 3 and
// 4, of which a quarter more is none: behind 4 nodes come 5.
static void the_next_number_of_nodes_with_room_is_named(void **state)
{
    struct search_request few = request_of(*state, "gpt3-175b", "dgx-a100-80g", 4);
    struct search_request enough = request_of(*state, "gpt3-175b", "dgx-a100-80g", 5);
    const struct candidate *best = best_of(*state, &enough);
    assert_null(best_of(*state, &few));
    assert_non_null(best);
    const char *text = arena_print(*state, "40 GPUs (--nodes 5) need %s reserved each",
                                   units_bytes(*state, (double)best->memory.reserved_bytes));
    for (int nodes = 1; nodes <= 4; nodes++) {
        struct search_request request = request_of(*state, "gpt3-175b", "dgx-a100-80g", nodes);
        is_pinned(&request, CHOICE_DP, nodes);  // not on more nodes
        struct search_result result = remedies_of(*state, &request);
        assert_string_equal(result.remedies[result.remedy_count - 2], text);
    }
}

// 216 sequences of gpt2-xl on 80 GB: scores that are made a quarter at a time have room. Other
// software is not told so, nor who asks for parts already.
static void scores_of_the_loss_are_made_in_parts(void **state)
{
    struct search_request request = request_of(*state, "gpt2-xl", "dgx-a100-80g", 1);
    request.workload.seq_len = 1024;
    request.workload.global_batch = 1728;
    is_pinned(&request, CHOICE_DP, 8);
    is_pinned(&request, CHOICE_RECOMPUTE, RECOMPUTE_FULL);
    is_pinned(&request, CHOICE_MICRO_BATCH, 216);
    assert_null(best_of(*state, &request));
    struct search_result result = remedies_of(*state, &request);
    struct search_request other = request;
    is_pinned(&other, CHOICE_LOSS_CHUNKS, 4);
    assert_memory_equal(result.remedies[1], "--offload activations:", 22);
    is_remedy(*state, result.remedies[2], "--loss-chunks 4", &other);
    for (int is_asked = 0; is_asked < 2; is_asked++) {
        struct err err = {0};
        other = request;
        if (is_asked)
            is_pinned(&other, CHOICE_LOSS_CHUNKS, 1);
        else
            other.stack = stack_load(*state, "megatron-core", &err);
        result = remedies_of(*state, &other);
        for (int i = 0; i < result.remedy_count; i++)
            assert_null(strstr(result.remedies[i], "--loss-chunks"));
    }
}

static void check_no_nodes(struct arena *arena, struct search_request request)
{
    request.pins.search_offload = true;
    is_pinned(&request, CHOICE_LOSS_CHUNKS, 1);
    assert_int_equal(remedies_of(arena, &request).remedy_count, 1);
}

// Where nodes are of two kinds, have no NIC, or a quarter more are too many.
static void some_clusters_have_no_more_nodes(void **state)
{
    check_no_nodes(*state, request_of(*state, "gpt3-175b", "h100-a100-mixed", 0));
    struct search_request request = request_of(*state, "gpt3-175b", "dgx-a100-80g", 1);
    struct cluster cluster = *request.cluster;
    request.cluster = &cluster;
    cluster.node_count = 800001;
    check_no_nodes(*state, request);
    cluster.node_count = 1;
    cluster.nodes[0].nics.count = 0;
    check_no_nodes(*state, request);
}

static double seconds_of(struct arena *arena, const struct search_request *request,
                         struct search_result *result)
{
    clock_t start = clock();
    *result = remedies_of(arena, request);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

// What is proven is the search that was asked, not what is said beside its answer: that
// would take minutes here.
static void beside_an_exhaustive_search_they_take_no_longer(void **state)
{
    struct search_request request = request_of(*state, "mixtral-8x7b", "dgx-a100-80g", 1);
    request.workload.global_batch = 1024;
    struct search_request proven = request;
    proven.exhaustive = true;
    struct search_result result, same;
    double pruned_s = seconds_of(*state, &request, &result);
    double proven_s = seconds_of(*state, &proven, &same);
    assert_int_equal(same.remedy_count, result.remedy_count);
    for (int i = 0; i < result.remedy_count; i++)
        assert_string_equal(same.remedies[i], result.remedies[i]);
    assert_true(proven_s < 5 * pruned_s + 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_an_exhaustive_search_they_take_no_longer),
        cmocka_unit_test(each_pin_is_given_up_alone),
        cmocka_unit_test(the_next_number_of_nodes_with_room_is_named),
        cmocka_unit_test(scores_of_the_loss_are_made_in_parts),
        cmocka_unit_test(some_clusters_have_no_more_nodes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
