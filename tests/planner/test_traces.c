#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/layout_prices.h"
#include "planner/traces.h"

#include <math.h>

// Layouts of two operators that change no tensor in common cost together what each costs by itself:
// pairs of them are not priced (planner/per_operator_problem.c).

// Small gradients of both are summed together at the end of a step: one collective, not two.
static const double SHARED_S = 50e-6;

enum { CHOICES_MOST = 400, PAIRS = 400 };

static struct evaluation_request request_of(struct arena *arena, const char *model, int64_t seq_len,
                                            bool sp)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", &err);
    assert_true(cluster && cluster_take_gpus(cluster, 4, &err));
    struct evaluation_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = seq_len,
                     .global_batch = 8,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .parallel = {.vpp = 1, .micro_batch = 4, .recompute_layers = -1, .sp = sp},
    };
    assert_string_equal(err.text, "");
    parallel_default_order(&request.parallel);
    for (int i = 0; i < AXIS_COUNT; i++)
        request.parallel.degree[i] = 1;
    request.parallel.degree[AXIS_TP] = 4;
    request.parallel.schedule = SCHEDULE_1F1B;
    request.parallel.passes = request.stack->passes;
    return request;
}

// Every layout of every operator with a matrix that can be by itself and is not the table's.
static int choices_of(struct arena *arena, struct layout_prices *prices, double table_s,
                      struct layout_said *said)
{
    const struct graph *graph = layout_prices_graph(prices);
    int count = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int at = 0; at < block->op_count * DIM_COUNT && count < CHOICES_MOST; at++) {
            const struct op *op = &block->ops[at / DIM_COUNT];
            struct layout_rule rule = {.axis = AXIS_TP,
                                       .operator= layout_rule_name(arena, block, op),
                                       .dim = (enum dim)(at % DIM_COUNT)};
            bool has_matrix =
                op->kind == OP_CONTRACT || op->kind == OP_GATHER || op->kind == OP_ATTENTION;
            if (!has_matrix || layout_rule_fault(arena, block, op, &rule)) continue;
            said[count] = (struct layout_said){b, at / DIM_COUNT, rule};
            struct layout_value value = layout_prices_value(prices, &said[count], 1, INFINITY);
            if (value.is_legal && value.step_s != table_s) count++;
        }
    }
    return count;
}

static void what_does_not_meet_adds_up(void **state)
{
    static const struct {
        const char *model;
        int64_t seq_len;
        bool sp;
    } CASES[] = {{"gpt2", 512, true},
                 {"llama-3-8b", 1024, false},
                 {"t5-base", 512, true},
                 {"evoformer-48", 32768, false}};
    struct draw draw = draw_start("layouts that meet", 20261201);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena known = {0}, scratch = {0};
        struct evaluation_request request =
            request_of(*state, CASES[i].model, CASES[i].seq_len, CASES[i].sp);
        struct search_request search = {.pins = pins_none(),
                                        .model = request.model,
                                        .cluster = request.cluster,
                                        .stack = request.stack,
                                        .fabrics = request.fabrics,
                                        .workload = request.workload};
        search.pins.per_operator = true;
        struct layout_memo *memo = layout_memo_new(&known, &scratch, &search);
        struct layout_prices *prices = layout_prices_new(memo, &request);
        struct layout_said said[CHOICES_MOST];
        double table_s = layout_prices_value(prices, said, 0, 0).step_s;
        int count = choices_of(*state, prices, table_s, said), apart = 0, met = 0;
        const uint32_t *const *base = layout_prices_traces(prices, said, 0);
        double worst_s = 0;
        assert_non_null(base);
        for (int pair = 0; pair < PAIRS; pair++) {
            int first = draw_int(&draw, 0, count - 1), second = draw_int(&draw, 0, count - 1);
            if (said[first].block != said[second].block || said[first].op >= said[second].op)
                continue;
            const struct layout_said both[] = {said[first], said[second]};
            if (layout_traces_meet(prices, base, layout_prices_traces(prices, &both[0], 1),
                                   layout_prices_traces(prices, &both[1], 1))) {
                met++;
                continue;
            }
            double first_s = layout_prices_value(prices, &both[0], 1, 0).step_s - table_s;
            double second_s = layout_prices_value(prices, &both[1], 1, 0).step_s - table_s;
            struct layout_value value = layout_prices_value(prices, both, 2, 0);
            assert_true(value.is_legal);
            double off_s = value.step_s - table_s - first_s - second_s;
            worst_s = fmax(worst_s, fabs(off_s));
            apart++;
        }
        printf("# %s: %d apart, at most %.3g s off, %d meet\n", CASES[i].model, apart, worst_s,
               met);
        assert_true(worst_s <= SHARED_S);
        assert_true(apart >= 5 && met >= 5);
        arena_free(&scratch);
        arena_free(&known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_meet_adds_up),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
