#include "models/import.h"
#include "planner/choice.h"
#include "tests/support/recorded_search.h"
#include "tests/support/test.h"
#include "topologies/cluster.h"

// Searches whose plans have parts unlike each other (operators, stages, nodes, branches), and
// shipped models of several families, go as recorded.

static const struct recorded_draws OPERATORS[] = {
    {WAY_PER_OPERATOR, {290, 261, 264, 285, 279, 283}},
    {WAY_STAGE_TP, {347, 349, 303, 334, 338}},
    {WAY_STAGE_RANKS, {352, 361, 386, 396}},
};
static void operators_and_stages_are_searched_as_recorded(void **state)
{
    recorded_check_draws(*state, OPERATORS, sizeof OPERATORS / sizeof *OPERATORS);
}

struct question {
    const char *model, *cluster, *stack;
    int gpus, other_gpus;  // of the first kind of nodes and, where there are several, of the second
    int64_t seq_len, global_batch;
    enum way way;
};

static const struct question QUESTIONS[] = {
    {"gpt2", "h100-a100-mixed", "meshwright", 1, 2, 1024, 11, WAY_TIME},
    {"two-towers-2b", "rtx4090-pcie8", "meshwright", 4, 0, 256, 1, WAY_BRANCHES},
    {"gpt2", "rtx4090-pcie8", "meshwright", 4, 0, 1024, 8, WAY_STAGE_TP},
    {"gpt2", "rtx4090-pcie8", "meshwright", 4, 0, 1024, 8, WAY_PER_OPERATOR},
    {"deepseek-v2-lite", "dgx-h100", "megatron-core", 4, 0, 2048, 16, WAY_TIME},
    {"mamba-2.8b", "dgx-a100-40g", "megatron-core", 8, 0, 1024, 16, WAY_TIME},
    {"bert-base", "dgx-a100-40g", "fsdp2", 4, 0, 512, 32, WAY_TIME},
    {"switch-base-8", "dgx-h100", "meshwright", 2, 0, 512, 16, WAY_TIME},
    {"gpt3-1.3b", "dgx-a100-80g", "megatron-zero-bubble", 4, 0, 1024, 32, WAY_TIME},
};

static void shipped_questions_are_answered_as_recorded(void **state)
{
    const char *lines = "";
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++) {
        const struct question *question = &QUESTIONS[i];
        struct arena arena = {0};
        struct err err = {0};
        struct cluster *cluster = cluster_load(&arena, question->cluster, &err);
        assert_string_equal(err.text, "");
        if (question->other_gpus == 0)
            assert_true(cluster_take_gpus(cluster, question->gpus, &err));
        for (int kind = 0; kind < 2 && question->other_gpus > 0; kind++)
            cluster->nodes[kind].gpus = cluster->nodes[kind].gpus_per_host =
                kind ? question->other_gpus : question->gpus;
        cluster->rank_count = question->gpus + question->other_gpus;
        struct search_request request = {
            .model = model_load(&arena, question->model, NULL, NULL, &err),
            .cluster = cluster,
            .stack = stack_load(&arena, question->stack, &err),
            .fabrics = fabrics_load(&arena, &err),
            .workload = {.seq_len = question->seq_len,
                         .global_batch = question->global_batch,
                         .precision = PRECISION_BF16,
                         .optimizer = OPTIMIZER_ADAMW},
            .pins = pins_none(),
            .top = 3,
            .nothing = SEARCH_FITS_ONLY,
        };
        assert_string_equal(err.text, "");
        recorded_way(&request, question->way, 0);
        const char *name = arena_print(&arena, "shipped %zu %s %s", i, question->model,
                                       recorded_name(question->way)),
                   *line = recorded_line(&arena, name, &request);
        lines = arena_print(*state, "%s%s", lines, line);
        arena_free(&arena);
    }
    recorded_check(*state, "shipped ", lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_and_stages_are_searched_as_recorded),
        cmocka_unit_test(shipped_questions_are_answered_as_recorded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
