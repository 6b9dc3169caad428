#include "cost_models/parameters.h"
#include "reports/comparison/run_tasks.h"
#include "simulator/evaluate.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// The join of `run`: what is measured beside what is predicted, and which of it is alone.

struct joined {
    struct evaluation_request request;
    struct evaluation evaluation;
    struct ledger ledger;
    struct run_result result;
};

// A plan of GPT-2 in two stages and two slices.
static void join_new(struct arena *arena, int nodes, struct joined *of)
{
    struct err err = {0};
    *of = (struct joined){.ledger = ledger_new(arena)};
    of->request = (struct evaluation_request){
        .model = model_load(arena, "gpt2", NULL, NULL, &err),
        .cluster = cluster_load(arena, arena_print(arena, "dgx-h100-x%d", nodes), &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 64, .global_batch = 8 * nodes, .precision = PRECISION_BF16},
        .parallel = {.vpp = 1, .micro_batch = 1, .recompute_layers = -1, .schedule = SCHEDULE_1F1B},
    };
    assert_string_equal(err.text, "");
    struct parallel *parallel = &of->request.parallel;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_TP] = parallel->degree[AXIS_PP] = 2;
    parallel->degree[AXIS_DP] = 2 * nodes;
    parallel_default_order(parallel);
    parallel->attention = ATTENTION_FLASH;
    parallel->passes = of->request.stack->passes;
    parallel->bucket_bytes = 1000;
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, &of->request, &of->evaluation, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(done);
    struct price_context context = evaluation_context(&of->request);
    context.ledger = &of->ledger;
    of->evaluation.price = step_price(arena, &context, of->evaluation.program);
}

static struct run_join join_of(struct arena *arena, struct joined *of)
{
    return run_join_make(arena, &of->request, &of->evaluation, &of->ledger,
                         (struct run_widths){4, 2}, &of->result);
}

// What a run measures that does all that is predicted, in the order of the rows.
static void measure_all(struct arena *arena, struct joined *of)
{
    const struct program *program = of->evaluation.program;
    const struct step_rules rules = step_rules_of(of->request.stack, program);
    const struct step_graph *graph = step_graph_make(arena, program, &rules);
    struct run_join alone = join_of(arena, of);
    of->result.task_count = graph->number_count;
    of->result.tasks = ARENA_NEW(arena, struct run_task, graph->number_count);
    for (int r = 0; r < alone.row_count; r++) {
        const struct run_joined *row = &alone.rows[r];
        int place = step_graph_place(graph, row->stage, row->chunk), first;
        int count = step_graph_tasks(graph, place, &first);
        for (int t = first; t < first + count; t++) {
            const struct graph_task *task = &graph->tasks[t];
            bool is_it = task->kind == row->task->kind && task->use == row->task->use &&
                         task->instr == row->task->instr && task->group == row->task->group;
            if (!is_it) continue;
            of->result.tasks[step_graph_number(graph, place, t)] = (struct run_task){
                .count = row->predicted_count, .bytes = row->predicted_bytes, .s = 1e-6};
        }
    }
}

static void what_ran_as_predicted_is_matched(void **state)
{
    struct joined of;
    join_new(*state, 1, &of);
    struct run_join nothing = join_of(*state, &of);
    assert_int_equal(nothing.unmatched_count, nothing.row_count);
    assert_true(nothing.predicted_count > 1000 && nothing.count == 0);
    measure_all(*state, &of);
    struct run_join join = join_of(*state, &of);
    assert_int_equal(join.unmatched_count, 0);
    assert_true(join.count == join.predicted_count);
    assert_non_null(strstr(run_join_text(*state, &join), "measured, none unmatched\n"));
}

// One run too few, a few bytes more, a task of nobody: each is named.
static void what_is_alone_is_named(void **state)
{
    struct joined of;
    join_new(*state, 1, &of);
    measure_all(*state, &of);
    struct run_task *tasks = of.result.tasks;
    int at = 0;
    while (tasks[at].count < 2)
        at++;
    tasks[at].count -= 1;
    struct run_join join = join_of(*state, &of);
    assert_int_equal(join.unmatched_count, 1);
    const char *text = run_join_text(*state, &join);
    assert_non_null(strstr(text, "1 kinds unmatched:\n  0.0"));
    tasks[at].count += 1;
    tasks[at].bytes += 64;
    join = join_of(*state, &of);
    assert_int_equal(join.unmatched_count, 1);
    tasks[at].bytes -= 64;
    // Messages that no stage sends.
    int idle = 0;
    while (tasks[idle].count > 0)
        idle++;
    tasks[idle] = (struct run_task){.count = 4, .bytes = 0};
    join = join_of(*state, &of);
    assert_int_equal(join.unmatched_count, 1);
    assert_true(join.count == join.predicted_count + 4);
}

// What six ranks hand on of a bucket are sixths, all of which are whole bytes.
static void bytes_are_whole(void **state)
{
    struct joined of;
    join_new(*state, 3, &of);
    struct run_join join = join_of(*state, &of);
    assert_true(join.row_count > 0);
    for (int r = 0; r < join.row_count; r++)
        assert_true(join.rows[r].predicted_bytes == nearbyint(join.rows[r].predicted_bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_as_predicted_is_matched),
        cmocka_unit_test(what_is_alone_is_named),
        cmocka_unit_test(bytes_are_whole),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
