#include "planner/choice.h"
#include "planner/memo.h"
#include "planner/space.h"
#include "planner/space_list.h"
#include "tests/support/test.h"

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster_load(arena, cluster, &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024, .global_batch = global_batch, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    assert_string_equal(err.text, "");
    return request;
}

static void check_values(const struct space_list *list, enum choice choice, const int64_t *values,
                         int count)
{
    assert_int_equal(list->choices[choice].count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(list->choices[choice].values[i], values[i]);
}

// gpt2 has 12 heads and 12 layers, which with embedding and head fill 14 chunks at most; 8 GPUs.
static void every_legal_value_is_in_the_space(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", 64);
    struct space_list *list = ARENA_NEW(*state, struct space_list, 1);
    assert_true(space_list(*state, &request, list, &err));
    check_values(list, CHOICE_TP, (const int64_t[]){1, 2, 4}, 3);
    check_values(list, CHOICE_PP, (const int64_t[]){1, 2, 4, 8}, 4);
    check_values(list, CHOICE_CP, (const int64_t[]){1, 2, 4, 8}, 4);
    check_values(list, CHOICE_VPP, (const int64_t[]){1, 2, 3, 4, 5, 6, 7}, 7);
    check_values(list, CHOICE_MICRO_BATCH, (const int64_t[]){1, 2, 4, 8, 16, 32, 64}, 7);
    check_values(list, CHOICE_ZERO, (const int64_t[]){0, 1, 2, 3}, 4);
    check_values(list, CHOICE_SP, (const int64_t[]){0, 1}, 2);
    assert_int_equal(list->cuts, 0);
}

static int place_of(const struct space_mesh *mesh, enum axis axis)
{
    for (int i = 0; i < mesh->order_count; i++)
        if (mesh->order[i] == axis) return i;
    return -1;
}

// On two nodes replicas may lie inside of tp, but not where experts take the innermost ranks.
static void experts_leave_tp_the_innermost_ranks(void **state)
{
    static const char *const MODELS[] = {"mixtral-8x7b", "llama-2-7b"};
    for (int i = 0; i < 2; i++) {
        struct arena scratch = {0};
        struct search_request request = request_of(*state, MODELS[i], "dgx-h100-x2", 64);
        pins_set(&request.pins, CHOICE_TP, 8, 8);
        pins_set(&request.pins, CHOICE_PP, 1, 1);
        struct memo *memo = memo_new(*state, &scratch, &request);
        const struct space_graphs graphs = {memo_graph_of, memo};
        const struct space *space = space_make(*state, &request, &graphs);
        int inside = 0;
        for (int m = 0; m < space->mesh_count; m++) {
            const struct space_mesh *mesh = &space->meshes[m];
            inside += place_of(mesh, AXIS_TP) > place_of(mesh, AXIS_DP);
        }
        assert_true(space->mesh_count > 0 && (inside > 0) == (i == 1));
        arena_free(&scratch);
    }
}

static void what_is_pinned_has_one_value(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", 64);
    struct space_list *list = ARENA_NEW(*state, struct space_list, 1);
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    assert_true(space_list(*state, &request, list, &err));
    check_values(list, CHOICE_PP, (const int64_t[]){4}, 1);
    assert_true(list->choices[CHOICE_PP].is_pinned && !list->choices[CHOICE_TP].is_pinned);
    pins_set(&request.pins, CHOICE_TP, 3, 3);
    assert_false(space_list(*state, &request, list, &err));
    assert_int_equal(err.kind, ERR_USAGE);
}

// Of 64 sequences each of 8 replicas has 8, in micro-batches of 1, 2, 4 or 8, each with ZeRO 0
// to 3.
static void plans_are_counted(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", 64);
    struct space_list *list = ARENA_NEW(*state, struct space_list, 1);
    pins_set(&request.pins, CHOICE_DP, 8, 8);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    assert_true(space_list(*state, &request, list, &err));
    assert_true(list->plan_count == 16);
    check_values(list, CHOICE_MICRO_BATCH, (const int64_t[]){1, 2, 4, 8}, 4);
    assert_false(list->has_pipeline);
    pins_set(&request.pins, CHOICE_ZERO, 1, 2);
    assert_true(space_list(*state, &request, list, &err));
    assert_true(list->plan_count == 8);
    check_values(list, CHOICE_ZERO, (const int64_t[]){1, 2}, 2);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    assert_true(space_list(*state, &request, list, &err));
    assert_true(list->plan_count == 2);
    check_values(list, CHOICE_MICRO_BATCH, (const int64_t[]){2}, 1);
    pins_clear(&request.pins, CHOICE_DP);
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    assert_true(space_list(*state, &request, list, &err));
    assert_true(list->has_pipeline);
}

// Very many meshes: the degrees are cut, and each cut is named; what is pinned is not cut.
static void a_space_of_many_meshes_names_its_cuts(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "gpt3-175b", "dgx-a100-80g-x128", 1536);
    struct space_list *list = ARENA_NEW(*state, struct space_list, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    assert_true(space_list(*state, &request, list, &err));
    assert_int_equal(list->cuts, 1u << CUT_TP | 1u << CUT_CP | 1u << CUT_MICRO_BATCH);
    pins_set(&request.pins, CHOICE_TP, 32, 32);
    pins_set(&request.pins, CHOICE_CP, 2, 2);
    assert_true(space_list(*state, &request, list, &err));
    assert_int_equal(list->cuts & (1u << CUT_TP | 1u << CUT_CP), 0);
}

// Also where what is forbidden is the one value that is looked at unasked.
static void shards_as_before_may_be_forbidden(void **state)
{
    static const char *const KEYS[] = {"zero_group", "zero_gradients", "zero_parameters"};
    for (int i = 0; i < 3; i++) {
        struct err err = {0};
        struct search_result result = {0};
        struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", 64);
        request.top = 10;
        request.pins.forbidden[0].key = KEYS[i];
        request.pins.forbidden[0].value = 0;
        request.pins.forbidden_count = 1;
        assert_true(search_plans(*state, &request, &result, &err));
        assert_true(result.best_count > 0);
        for (int k = 0; k < result.best_count; k++)
            assert_true(pins_allow_all(&request.pins, &result.best[k].parallel, NULL));
    }
}

// Without tp there is nothing that sp could split; with it each plan is there with and without.
static void sequences_are_split_where_tensors_are(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "gpt2", "dgx-a100-80g", 64);
    struct space_list *list = ARENA_NEW(*state, struct space_list, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    for (int tp = 1; tp <= 4; tp *= 2) {
        pins_clear(&request.pins, CHOICE_SP);
        pins_set(&request.pins, CHOICE_TP, tp, tp);
        assert_true(space_list(*state, &request, list, &err));
        check_values(list, CHOICE_SP, (const int64_t[]){0, 1}, tp > 1 ? 2 : 1);
        double all = list->plan_count;
        pins_set(&request.pins, CHOICE_SP, 0, 0);
        assert_true(space_list(*state, &request, list, &err));
        assert_true(all > 0 && list->plan_count == (tp > 1 ? all / 2 : all));
        pins_set(&request.pins, CHOICE_SP, 1, 1);
        bool has_any = space_list(*state, &request, list, &err);
        if (tp > 1) assert_true(has_any && list->plan_count == all / 2);
        err = (struct err){0};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_legal_value_is_in_the_space),
        cmocka_unit_test(experts_leave_tp_the_innermost_ranks),
        cmocka_unit_test(what_is_pinned_has_one_value),
        cmocka_unit_test(plans_are_counted),
        cmocka_unit_test(sequences_are_split_where_tensors_are),
        cmocka_unit_test(a_space_of_many_meshes_names_its_cuts),
        cmocka_unit_test(shards_as_before_may_be_forbidden),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
