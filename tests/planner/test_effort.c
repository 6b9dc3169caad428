#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/search.h"

// What bounds spare a search: it prices so few of the plans that its space holds. One that holds
// less no longer costs no answer, only time, which nothing else would notice.

struct effort {
    const char *model, *cluster, *stack;
    int64_t seq_len, global_batch;
    enum objective objective;
    bool offload;                    // is searched
    double considered, priced_most;  // plans of the space; a twentieth more than were priced
};

static const struct effort EFFORTS[] = {
    {"gpt3-13b", "dgx-a100-80g-x8", "megatron-core", 2048, 512, OBJECTIVE_TIME, false, 1785136,
     385},
    {"gpt3-6.7b", "dgx-a100-80g-x2", "megatron-zero-bubble", 2048, 64, OBJECTIVE_TIME, false,
     382992, 432},
    {"llama-3-8b", "dgx-a100-40g", "megatron-core", 8192, 32, OBJECTIVE_TIME, true, 2881218, 1637},
    {"llama-3-8b", "dgx-h100", "fsdp2", 8192, 64, OBJECTIVE_COST, false, 14256, 185},
    {"llama-3-70b", "dgx-h100-x2", "megatron-core", 4096, 64, OBJECTIVE_MEMORY, false, 1343704,
     122},
    {"llama-3-70b", "dgx-h100", "megatron-core", 8192, 64, OBJECTIVE_TIME, false, 345226, 0},
    {"mixtral-8x7b", "dgx-h100-x4", "megatron-core", 4096, 128, OBJECTIVE_TIME, false, 714598, 440},
    {"gpt3-6.7b", "h100-a100-mixed", "megatron-core", 2048, 64, OBJECTIVE_TIME, false, 358132, 268},
    {"gpt2", "dgx-a100-80g", "meshwright", 1024, 64, OBJECTIVE_TIME, false, 155579, 1259},
    {"gpt2", "dgx-a100-80g", "meshwright", 1024, 64, OBJECTIVE_TIME, true, 7886922, 1682},
};

static void bounds_spare_as_much_as_they_did(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    for (size_t i = 0; i < sizeof EFFORTS / sizeof *EFFORTS; i++) {
        const struct effort *effort = &EFFORTS[i];
        struct search_request request = {
            .model = model_load(arena, effort->model, NULL, NULL, &err),
            .cluster = cluster_load(arena, effort->cluster, &err),
            .stack = stack_load(arena, effort->stack, &err),
            .fabrics = fabrics,
            .workload = {.seq_len = effort->seq_len,
                         .global_batch = effort->global_batch,
                         .precision = PRECISION_BF16,
                         .optimizer = OPTIMIZER_ADAMW},
            .objective = effort->objective,
            .pins = pins_none(),
            .top = 3,
            .nothing = SEARCH_CLOSEST,
        };
        request.pins.search_offload = effort->offload;
        struct search_result result = {0};
        assert_string_equal(err.text, "");
        assert_true(search_plans(arena, &request, &result, &err));
        bool holds = result.considered_count == effort->considered &&
                     result.priced_count <= effort->priced_most;
        if (!holds)
            print_error("%s on %s: %.0f considered, %.0f priced\n", effort->model, effort->cluster,
                        result.considered_count, result.priced_count);
        assert_true(holds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_spare_as_much_as_they_did),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
