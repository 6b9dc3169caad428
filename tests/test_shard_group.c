#include "tests/test.h"

#include "planner/choice.h"
#include "tests/priced.h"

#include <math.h>

// Shards of one node: who proposes them, and what bringing parameters back from their owners costs.

static double gather_s(struct arena *arena, bool broadcasts, int group)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g-x128", "internevo");
    *stack = *of.stack;
    stack->broadcast_gather = broadcasts;
    of.stack = stack;
    of.parallel.zero = 1;
    of.parallel.zero_group = group;
    priced_finish(&of);
    return of.price->classes[0].parameter_gather_s;
}

// 1024 broadcasts pay the latency of 1024 ranks each; inside a node there are 8, of 8 ranks.
static void every_owner_broadcasts_its_own(void **state)
{
    double whole_s = gather_s(*state, false, 0), each_s = gather_s(*state, true, 0);
    assert_true(each_s > 1.5 * whole_s);
    double node_s = gather_s(*state, false, 8), each_in_node_s = gather_s(*state, true, 8);
    assert_true(each_in_node_s >= node_s && each_in_node_s < 1.05 * node_s);
    assert_true(each_in_node_s < 0.3 * each_s);
}

static int group_chosen(struct arena *arena, const char *stack, int zero)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-a100-80g-x128", &err),
        .stack = stack_load(arena, stack, &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 2048, .global_batch = 2048, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_DP, 1024, 1024);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&request.pins, CHOICE_ZERO, zero, zero);
    struct search_result result = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
    return result.best[0].parallel.zero_group;
}

// Hybrid ZeRO is what InternEvo is for; of Megatron-Core's optimizer a group is asked for by name.
static void a_stack_says_for_what_its_users_shard_in_nodes(void **state)
{
    assert_int_equal(group_chosen(*state, "internevo", 1), 8);
    assert_int_equal(group_chosen(*state, "megatron-core", 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_owner_broadcasts_its_own),
        cmocka_unit_test(a_stack_says_for_what_its_users_shard_in_nodes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
