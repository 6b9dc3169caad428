#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/refine.h"
#include "planner/scan_group.h"
#include "planner/search.h"
#include "tests/support/test.h"

#include <math.h>

// Eight sequences of gpt2-xl at once are too many for one device of 40 GB.
static struct search_request tight(struct arena *arena, const char *stack)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-40g", &err);
    struct search_request request = {.pins = pins_none(), .top = 3, .cluster = cluster};
    request.model = model_load(arena, "gpt2-xl", NULL, NULL, &err);
    request.stack = stack_load(arena, stack, &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_true(cluster_take_gpus(cluster, 1, &err));
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 1024,
                                         .global_batch = 64,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    request.pins.search_offload = true;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 8, 8);
    return request;
}

static struct search_result searched(struct arena *arena, const struct search_request *request)
{
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, request, &result, &err));
    assert_true(result.best_count > 0);
    return result;
}

static bool moves_layers_alike(const struct offload *offload)
{
    for (int class = 1; class < OP_CLASS_COUNT; class ++)
        if (offload->layers[class] != offload->layers[0]) return false;
    return true;
}

static void classes_may_be_faster_than_whole_layers(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 16, 16);
    struct search_result result = searched(*state, &request);
    const struct candidate *best = &result.best[0];
    assert_true(best->closed_form_s < result.layers_s);
    assert_true(result.bound_s < best->closed_form_s);
    assert_int_equal(result.status, SEARCH_FEASIBLE);
    assert_false(moves_layers_alike(&best->parallel.offload));
    assert_true(best->memory.reserved_bytes <= cluster_device_bytes(request.cluster));
    request.exhaustive = true;
    struct search_result whole = searched(*state, &request);
    assert_int_equal(candidate_compare(OBJECTIVE_TIME, best, &whole.best[0]), 0);
    assert_int_equal(step_ns(result.bound_s), step_ns(whole.bound_s));
    assert_int_equal(step_ns(result.layers_s), step_ns(whole.layers_s));
    assert_true(whole.considered_count == result.considered_count);
}

// A plan is there once, however many of its tail were found.
static void a_tail_is_ranked_once(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    pins_clear(&request.pins, CHOICE_MICRO_BATCH);
    request.top = 8;
    struct search_result result = searched(*state, &request);
    for (int i = 0; i < result.best_count; i++)
        for (int k = 0; k < i; k++)
            assert_true(result.best[i].parallel.micro_batch !=
                            result.best[k].parallel.micro_batch ||
                        result.best[i].parallel.zero != result.best[k].parallel.zero);
    assert_true(result.best_count > 2);
}

static void a_stack_of_whole_layers_gets_whole_layers(void **state)
{
    struct search_request request = tight(*state, "fsdp2");
    struct search_result result = searched(*state, &request);
    for (int i = 0; i < result.best_count; i++)
        assert_true(moves_layers_alike(&result.best[i].parallel.offload));
}

// Nobody asked for classes where activations are pinned, or memory is what counts.
static void classes_are_asked_of_only_where_that_is_searched(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    request.objective = OBJECTIVE_MEMORY;
    struct search_result least = searched(*state, &request);
    assert_true(least.layers_s == 0);
    assert_true(least.status == SEARCH_OPTIMAL || least.status == SEARCH_BEST_OF);
    assert_int_equal(least.bound_bytes, least.best[0].memory.reserved_bytes);
    request.objective = OBJECTIVE_TIME;
    request.pins.search_offload = false;
    struct search_result result = searched(*state, &request);
    assert_true(result.layers_s == 0 && offload_is_none(&result.best[0].parallel.offload));
    assert_int_equal(result.status, SEARCH_BEST_OF);
    assert_int_equal(result.cuts[result.cut_count - 1].cut, CUT_OFFLOAD);
}

// Of one GPU too small for all states, but not for some: as few as leave room go, and the step is
// shorter than where all do.
static void as_few_states_leave_as_need_to(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    struct err err = {0};
    request.model = model_load(*state, "gpt-neo-2.7b", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    pins_set(&request.pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    struct search_result some = searched(*state, &request);
    struct offload offload = some.best[0].parallel.offload;
    assert_true(offload.optimizer_layers > 1 && offload.optimizer_layers < 32);
    assert_true(some.best[0].memory.reserved_bytes <= cluster_device_bytes(request.cluster));
    request.pins.search_offload = false;
    offload.optimizer_layers--;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&offload), offload_value(&offload));
    struct search_result fewer = {0};
    assert_true(search_plans(*state, &request, &fewer, &err));
    assert_int_equal(fewer.status, SEARCH_NOTHING_FITS);
    offload.optimizer_layers = 0;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&offload), offload_value(&offload));
    struct search_result all = searched(*state, &request);
    assert_true(some.best[0].cost.step_s < all.best[0].cost.step_s);
}

// The same of parameters, beside states that are all away: each layer that stays is fetched no
// more. What bounds plans that fetch all bounds none that fetch some.
static void as_few_parameters_leave_as_need_to(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    struct err err = {0};
    request.model = model_load(*state, "mpt-30b", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    pins_set(&request.pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    struct search_request before = request;
    struct search_result some = {0};
    assert_true(search_plans(*state, &request, &some, &err));
    assert_int_equal(some.status, SEARCH_NOTHING_FITS);
    request.pins.search_parameters = TIER_HOST;
    request.pins.search_gradients = true;
    some = searched(*state, &request);
    struct offload offload = some.best[0].parallel.offload;
    assert_true(offload.parameter_layers > 1 && offload.parameter_layers < 48);
    assert_int_equal(offload.optimizer_layers, 0);
    for (int i = 0; i < some.cut_count; i++)
        assert_true(some.cuts[i].bound_s == 0);
    const struct open_cut *last = &some.cuts[some.cut_count - 1];
    assert_int_equal(last->cut, CUT_STATES);
    request = before;
    request.pins.search_offload = false;
    // What stays between two uses nobody can pin, and without it there is more room.
    offload.turn_blocks = offload.between_layers = 0;
    offload.parameter_layers--;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&offload), offload_value(&offload));
    struct search_result fewer = {0};
    assert_true(search_plans(*state, &request, &fewer, &err));
    assert_int_equal(fewer.status, SEARCH_NOTHING_FITS);
    offload.parameter_layers = 0;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&offload), offload_value(&offload));
    struct search_result all = searched(*state, &request);
    assert_true(some.best[0].cost.step_s < all.best[0].cost.step_s);
}

// And of gradients, which move in every micro-batch as well. Fewer have no room; all take longer.
static void as_few_gradients_leave_as_need_to(void **state)
{
    struct search_request request = tight(*state, "meshwright");
    struct err err = {0};
    request.model = model_load(*state, "gpt3-13b", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    pins_set(&request.pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    request.pins.search_parameters = TIER_HOST;
    request.pins.search_gradients = true;
    const struct search_result some = searched(*state, &request);
    struct offload offload = some.best[0].parallel.offload;
    assert_true(offload.gradients && offload.gradient_layers > OFFLOAD_GRADIENTS_LEAST);
    assert_true(offload.gradient_layers < 40);
    for (int i = 0; i < some.cut_count; i++)
        assert_true(some.cuts[i].bound_s == 0);
    request.pins.search_offload = false;
    for (int layers = 0; layers < 2; layers++) {
        struct offload other = offload;
        other.gradient_layers = (int16_t)(layers ? 0 : offload.gradient_layers - 1);
        pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&other), offload_value(&other));
        struct search_result found = {0};
        assert_true(search_plans(*state, &request, &found, &err));
        assert_int_equal(found.status == SEARCH_NOTHING_FITS, layers == 0);
        if (layers) assert_true(some.best[0].cost.step_s < found.best[0].cost.step_s);
    }
}

// A base of so many seconds with everything kept.
static struct refine_base base_of(double kept_s)
{
    return (struct refine_base){.kept = {.closed_form_s = kept_s, .cost.step_s = kept_s}};
}

// Behind are those no faster than the best plan, and those before whom as many come as are asked.
static void tails_are_behind_as_many_as_are_asked(void **state)
{
    struct refine_base items[REFINE_MOST + 2];
    struct refine_bases bases = {.arena = *state, .items = items, .count = REFINE_MOST};
    struct scan_request request = {.bases = NULL};
    struct scan scan = {.request = &request};
    const struct candidate plan = {.closed_form_s = 9, .cost.step_s = 9};
    assert_true(refine_is_behind(&scan, 1));  // nobody asks
    request.bases = &bases;
    for (int i = 0; i < REFINE_MOST + 2; i++)
        items[i] = base_of(1 + 0.25 * i);
    // All are before 7, all but one before the last of them itself.
    assert_true(refine_is_behind(&scan, 7));
    assert_false(refine_is_behind(&scan, items[REFINE_MOST - 1].kept.closed_form_s));
    bases.count = REFINE_MOST - 1;
    assert_false(refine_is_behind(&scan, 7));
    bases.count = REFINE_MOST + 2;
    assert_true(refine_is_behind(&scan, 7));
    assert_false(refine_is_behind(&scan, 1));
    // A plan of nine seconds is no slower than what takes nine.
    bases.count = 1;
    scan.result.ranking = ranking_new(*state, OBJECTIVE_TIME, 2);
    assert_false(refine_is_behind(&scan, 9));
    assert_true(ranking_offer(&scan.result.ranking, &plan));
    assert_false(refine_is_behind(&scan, 8.999));
    assert_true(refine_is_behind(&scan, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_are_behind_as_many_as_are_asked),
        cmocka_unit_test(classes_may_be_faster_than_whole_layers),
        cmocka_unit_test(as_few_states_leave_as_need_to),
        cmocka_unit_test(as_few_parameters_leave_as_need_to),
        cmocka_unit_test(as_few_gradients_leave_as_need_to),
        cmocka_unit_test(a_tail_is_ranked_once),
        cmocka_unit_test(a_stack_of_whole_layers_gets_whole_layers),
        cmocka_unit_test(classes_are_asked_of_only_where_that_is_searched),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
