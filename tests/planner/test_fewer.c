#include "planner/fewer.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "topologies/cluster.h"

// Plans for the ranks that are left: what stays of the plan before, worked by hand.

static struct search_request request_of(struct arena *arena, const char *model, int ranks)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 1};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", &err);
    assert_true(cluster && cluster_take_gpus(cluster, ranks, &err));
    request.cluster = cluster;
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.stack = stack_load(arena, "meshwright", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 1024,
                                         .global_batch = 16,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

// The best plan on all ranks with these degrees.
static struct parallel plan_of(struct arena *arena, const struct search_request *all, int tp,
                               int pp, int zero)
{
    struct err err = {0};
    struct search_request request = *all;
    struct search_result result = {0};
    pins_set(&request.pins, CHOICE_TP, tp, tp);
    pins_set(&request.pins, CHOICE_PP, pp, pp);
    pins_set(&request.pins, CHOICE_ZERO, zero, zero);
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
    return result.best[0].parallel;
}

// Degrees 2 x 2 go into 4, not into 3 of 8; 16 sequences into 4 copies or 2. ZeRO stays either way.
static void what_can_stay_stays(void **state)
{
    (void)state;
    static const struct {
        int left, ranks;
        enum fewer_kept kept;
    } CASES[] = {{8, 8, FEWER_KEPT_ALL}, {4, 4, FEWER_KEPT_ALL}, {2, 2, FEWER_KEPT_MEMORY}};
    struct arena arena = {0};
    struct search_request request = request_of(&arena, "gpt2", 8);
    struct parallel was = plan_of(&arena, &request, 2, 2, 1);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct fewer_answer answer;
        assert_true(fewer_search(&arena, &request, &was, CASES[i].left, &answer, &err));
        const struct parallel *is = &answer.result.best[0].parallel;
        assert_int_equal(answer.request.cluster->rank_count, CASES[i].ranks);
        assert_int_equal(answer.kept, CASES[i].kept);
        assert_int_equal(choice_value(is, CHOICE_ZERO), 1);
        if (CASES[i].kept != FEWER_KEPT_ALL) continue;
        for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
            if (choice == CHOICE_DP || choice == CHOICE_ZERO_GROUP) continue;
            assert_int_equal(choice_value(is, choice), choice_value(&was, choice));
        }
    }
    arena_free(&arena);
}

// The request's own cluster is as it was, and rents nothing that is gone.
static void the_cluster_stays(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err = {0};
    struct fewer_answer answer;
    struct search_request request = request_of(&arena, "gpt2", 8);
    struct parallel was = plan_of(&arena, &request, 1, 1, 0);
    assert_true(fewer_search(&arena, &request, &was, 1, &answer, &err));
    assert_int_equal(request.cluster->rank_count, 8);
    assert_int_equal(cluster_rented_count(answer.request.cluster), 1);
    arena_free(&arena);
}

// 70 billion parameters with their state do not fit on one GPU of 80 GB.
static void nothing_fits(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err = {0};
    struct fewer_answer answer;
    struct search_request request = request_of(&arena, "gpt2", 8);
    struct parallel was = plan_of(&arena, &request, 1, 1, 0);
    request.model = model_load(&arena, "llama-3-70b", NULL, NULL, &err);
    assert_false(fewer_search(&arena, &request, &was, 1, &answer, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "no plan fits on 1 rank of dgx-a100-80g or on fewer");
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_stay_stays),
        cmocka_unit_test(the_cluster_stays),
        cmocka_unit_test(nothing_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
