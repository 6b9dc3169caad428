#include "cost_models/parameters.h"
#include "cost_models/task_prices.h"
#include "tests/support/priced.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <math.h>

// The step graph (plan/script/graph.h): worked by hand, written out by scripts, and priced.

static struct step_graph *graph_of(struct arena *arena, const struct program *program,
                                   const struct stack *stack)
{
    const struct step_rules rules = step_rules_of(stack, program);
    return step_graph_make(arena, program, &rules);
}

// What a rank of a chunk runs of a kind in a step, and the numbers it computes with that they move.
struct sum {
    double count, compute, reals;
};

static struct sum sum_of(const struct step_graph *graph, int stage, int chunk, enum task_kind kind,
                         int group)
{
    int place = step_graph_place(graph, stage, chunk), first;
    int count = step_graph_tasks(graph, place, &first);
    struct sum sum = {0};
    for (int t = first; t < first + count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind != kind || (group >= 0 && task->group != group)) continue;
        double times = step_graph_count(graph, place, t);
        sum.count += times;
        sum.compute += times * task->bytes.compute;
        sum.reals += times * task->bytes.reals;
    }
    return sum;
}

static void is_sum(struct sum found, double count, double compute, double reals)
{
    if (found.count == count && found.compute == compute && found.reals == reals) return;
    fail_msg("%.0f tasks of %.17g numbers and %.17g reals, not %.0f of %.17g and %.17g",
             found.count, found.compute, found.reals, count, compute, reals);
}

// Collectives of one axis in a phase.
static struct sum exchanged(const struct step_graph *graph, int stage, enum axis axis,
                            enum phase phase, enum block_role role)
{
    int place = step_graph_place(graph, stage, 0), first;
    int count = step_graph_tasks(graph, place, &first);
    struct sum sum = {0};
    for (int t = first; t < first + count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind != TASK_INSTR) continue;
        const struct block_program *block = graph->program->blocks[task->block];
        const struct instr *instr = &block->instrs[task->instr];
        bool is_it = instr->collective && instr->parent == axis && instr->phase == phase &&
                     block->block->role == role;
        if (!is_it) continue;
        sum.count += step_graph_count(graph, place, t);
        sum.compute += step_graph_count(graph, place, t) * task->bytes.compute;
    }
    return sum;
}

// GPT-2 124M: 12 layers of 768 hidden, 1024 tokens. Tensor parallel over 2, 2 stages of 6 layers,
// 2 replicas, 3 micro-batches of 2 sequences.
static void gpt2_worked_by_hand(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-h100", "meshwright");
    of.parallel.degree[AXIS_TP] = 2;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.micro_batch = 2;
    of.parallel.bucket_bytes = 1 << 30;
    of.workload.seq_len = 1024;
    of.workload.global_batch = 12;
    priced_finish(&of);
    assert_int_equal(of.parallel.degree[AXIS_DP], 2);
    const struct step_graph *graph = graph_of(*state, of.program, of.stack);
    double hidden = 2.0 * 1024 * 768;
    // Two all-reduces a layer forward and two backward.
    is_sum(exchanged(graph, 0, AXIS_TP, PHASE_FORWARD, BLOCK_LAYER), 3 * 12, 36 * hidden, 0);
    is_sum(exchanged(graph, 1, AXIS_TP, PHASE_BACKWARD, BLOCK_LAYER), 3 * 12, 36 * hidden, 0);
    // A message a micro-batch and boundary: forward (group 0) behind, backward (1) to the front.
    is_sum(sum_of(graph, 0, 0, TASK_SEND, 0), 3, 3 * hidden, 0);
    is_sum(sum_of(graph, 0, 0, TASK_SEND, 1), 0, 0, 0);
    is_sum(sum_of(graph, 0, 0, TASK_RECEIVE, 1), 3, 3 * hidden, 0);
    is_sum(sum_of(graph, 1, 0, TASK_SEND, -1), 3, 3 * hidden, 0);
    is_sum(sum_of(graph, 1, 0, TASK_RECEIVE, 0), 3, 3 * hidden, 0);
    assert_true(sum_of(graph, 0, 0, TASK_LOSS, -1).count == 0);
    assert_true(sum_of(graph, 1, 0, TASK_LOSS, -1).count == 3);
    assert_true(sum_of(graph, 1, 0, TASK_SEED, -1).count == 3);
    // One bucket of the layers and positions, one of the tied table: 50257 rows over tp.
    double table = 25129.0 * 768;
    double layer = 2 * 2 * 768 + 768 * (2304 + 768 + 2 * 3072) / 2.0 +  // norms, matrices
                   2304 / 2.0 + 768 + 3072 / 2.0 + 768;                 // biases
    double first = 6 * layer + 1024 * 768;
    is_sum(sum_of(graph, 0, 0, TASK_GRADIENT_REDUCE, -1), 2, 0, first + table);
    is_sum(sum_of(graph, 0, 0, TASK_TIED_REDUCE, -1), 1, 0, table);
    is_sum(sum_of(graph, 1, 0, TASK_TIED_REDUCE, -1), 1, 0, table);
    // AdamW: weights and two moments read and written, gradients read.
    is_sum(sum_of(graph, 0, 0, TASK_UPDATE, -1), 2, 0, 7 * (first + table));
    is_sum(sum_of(graph, 0, -1, TASK_NORM, -1), 1, 0, 1);
    assert_true(sum_of(graph, 0, -1, TASK_TRUST, -1).count == 0);
}

// LAMB asks for the norms of each of 16 parameters of a layer and of its step, of positions and the
// table, of the last norm and of the table once more, as the head has it: 12 * 16 + 2 + 3, in one
// exchange of the two ranks.
static void trust_ratios_worked_by_hand(void **state)
{
    for (int tp = 1; tp <= 2; tp++) {
        struct priced of = priced_start(*state, "gpt2", "dgx-h100", "meshwright");
        struct err err = {0};
        assert_true(cluster_take_gpus(of.cluster, tp, &err));
        of.parallel.degree[AXIS_TP] = tp;
        of.workload.seq_len = 1024;
        of.workload.global_batch = 1;
        of.workload.optimizer = OPTIMIZER_LAMB;
        priced_finish(&of);
        const struct step_graph *graph = graph_of(*state, of.program, of.stack);
        is_sum(sum_of(graph, 0, -1, TASK_TRUST, -1), 1, 0, tp == 1 ? 0 : 2 * (12 * 16 + 2 + 3));
    }
}

// ZeRO 3: each layer's parameters are gathered forward and backward of each micro-batch, and its
// gradients scattered; nothing is left for the end but the update of the shard.
static void zero_3_worked_by_hand(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-h100", "meshwright");
    of.parallel.zero = 3;
    of.workload.seq_len = 1024;
    of.workload.global_batch = 16;
    priced_finish(&of);
    const struct step_graph *graph = graph_of(*state, of.program, of.stack);
    double layer = 12.0 * 768 * 768 + 13 * 768;
    is_sum(exchanged(graph, 0, AXIS_DP, PHASE_FORWARD, BLOCK_LAYER), 24, 24 * layer, 0);
    assert_true(sum_of(graph, 0, 0, TASK_GRADIENT_REDUCE, -1).count == 0);
    assert_true(sum_of(graph, 0, 0, TASK_PARAMETER_GATHER, -1).count == 0);
    double all = 12 * layer + 1024.0 * 768 + 2 * 768 + 50257.0 * 768;
    struct sum update = sum_of(graph, 0, 0, TASK_UPDATE, -1);
    assert_true(fabs(update.reals - 7 * all / 8) < 1e-6 * all);
    // Rooms for gradients are memory: nobody clears them.
    assert_true(sum_of(graph, 0, 0, TASK_ROOM, -1).count == 0);
}

// Llama-3 8B: a first stage of tp 4 and dp 2 hands two sequences of its group to a second of tp 2
// and dp 4, whose ranks hold one each; all of a group hold them whole. On the mean rank as many are
// sent as the others get.
static void unlike_meshes_worked_by_hand(void **state)
{
    static const int TPS[] = {4, 2};
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100-x2", "meshwright");
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.micro_batch = 2;
    of.parallel.stage_tp = TPS;
    of.parallel.stage_tp_count = 2;
    of.workload.seq_len = 1024;
    of.workload.global_batch = 16;
    priced_finish(&of);
    const struct step_graph *graph = graph_of(*state, of.program, of.stack);
    double hidden = 4 * 1024.0 * 4096;
    is_sum(sum_of(graph, 0, 0, TASK_SEND, 0), 4, hidden, 0);
    is_sum(sum_of(graph, 1, 0, TASK_RECEIVE, 0), 4, hidden, 0);
    is_sum(sum_of(graph, 1, 0, TASK_SEND, 1), 4, 2 * hidden, 0);
    is_sum(sum_of(graph, 0, 0, TASK_RECEIVE, 1), 4, 2 * hidden, 0);
}

// Every instruction of every block of a class has a task that says where it is.
static void check_places(const struct step_graph *graph)
{
    const struct program *program = graph->program;
    for (int c = 0; c < program->chunk_class_count; c++) {
        const struct program_chunk *chunk = &program->chunks[c];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            const struct block_program *block = program->blocks[use->block_program];
            for (int i = 0; i < block->instr_count; i++) {
                const struct graph_task *task = &graph->tasks[graph->use_first[c][u] + i];
                const struct instr *instr = &block->instrs[i];
                // Weights that stay from forward to backward are fetched once for several rounds.
                bool stays = block->weights_rounds > 0 && instr->phase == PHASE_FORWARD &&
                             instr->collective == COLLECTIVE_FETCH;
                assert_int_equal(task->kind, TASK_INSTR);
                assert_int_equal(task->use, u);
                assert_int_equal(task->block, use->block_program);
                assert_int_equal(task->instr, i);
                assert_true(task->is_repeated == !stays);
            }
        }
    }
}

// A script runs every task of its places exactly as often as the graph says, and moves as much.
static void scripts_are_the_graph_written_out(void **state)
{
    (void)state;
    struct draw draw = draw_start("step graph", 31);
    int wanted = script_case_count(60);
    for (int done = 0, tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 300 * wanted + 300);
        if (script_case_draw(&arena, &draw, &of)) {
            of.program->workload.unclipped = draw_int(&draw, 0, 1);
            script_case_write(&of);
            for (int s = 0; s < of.program->shape.stage_count; s++) {
                const struct script *script = of.scripts[s];
                const struct step_graph *graph = script->graph;
                if (s == 0) check_places(graph);
                double *ran = ARENA_NEW(&arena, double, graph->number_count);
                for (int t = 0; t < script->task_count; t++)
                    ran[script->tasks[t].in_graph]++;
                for (int c = -1; c < of.program->shape.chunk_count; c++) {
                    int place = step_graph_place(graph, s, c), first;
                    int count = step_graph_tasks(graph, place, &first);
                    for (int t = first; t < first + count; t++) {
                        double wants = step_graph_count(graph, place, t);
                        assert_true(ran[step_graph_number(graph, place, t)] == wants);
                        ran[step_graph_number(graph, place, t)] = 0;
                    }
                }
                for (int n = 0; n < graph->number_count; n++)
                    assert_true(ran[n] == 0);
            }
            done++;
        }
        arena_free(&arena);
    }
}

// Of what our executor runs nothing is without a price that reads or writes anything.
static void check_all_priced(const struct step_graph *graph, const struct task_prices *prices)
{
    const struct schedule_shape *shape = &graph->program->shape;
    for (int place = 0; place < shape->stage_count * (shape->chunk_count + 1); place++) {
        int first, count = step_graph_tasks(graph, place, &first);
        for (int t = first; t < first + count; t++) {
            if (step_graph_count(graph, place, t) <= 0) continue;
            if (task_pricing_of(prices, t) == TASK_UNPRICED)
                fail_msg("a task of kind \"%s\" has no price",
                         task_kind_name(graph->tasks[t].kind));
        }
    }
}

// What a step costs is the sum of its tasks and what is beside them; every price has its task.
static void prices_are_those_of_tasks(void **state)
{
    (void)state;
    struct draw draw = draw_start("task prices", 5);
    int wanted = script_case_count(60), executed = 0;
    for (int done = 0, tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 300 * wanted + 300);
        if (script_case_draw(&arena, &draw, &of)) {
            struct ledger ledger = ledger_new(&arena);
            struct price_context context = of.context;
            context.ledger = &ledger;
            const struct step_price *price = step_price(&arena, &context, of.program);
            const struct step_graph *graph = graph_of(&arena, of.program, of.stack);
            const struct task_prices prices = task_prices_of(&arena, graph, &ledger);
            assert_true(prices.unrun_s <= 0 || !stack_is_executed(of.stack));
            executed += stack_is_executed(of.stack);
            if (stack_is_executed(of.stack)) check_all_priced(graph, &prices);
            double reduce_s = 0, task_s = 0;
            // What updates read for the norm is in the task that takes it, of the mean stage.
            double stages = of.program->shape.stage_count, squares_s = 0, norm_s = 0;
            for (int i = 0; i < ledger.count; i++) {
                const struct ledger_line *line = &ledger.lines[i];
                for (int at = 0; at < stages * of.program->shape.chunk_count; at++) {
                    bool is_own = of.program->class_of[at] == line->chunk;
                    squares_s += line->entry == ENTRY_SQUARES && is_own ? line->s / stages : 0;
                }
                norm_s += line->entry == ENTRY_NORM ? line->s : 0;
            }
            for (int t = 0; t < graph->task_count; t++) {
                if (graph->tasks[t].kind != TASK_NORM) continue;
                double more_s = prices.s[t] - norm_s - squares_s;
                assert_true(fabs(more_s) <= 1e-9 * prices.s[t]);
            }
            for (int class = 0; class < price->class_count; class ++) {
                reduce_s += price->classes[class].gradient_reduce_s;
                for (int t = graph->first[class]; t < graph->first[class + 1]; t++) {
                    const struct graph_task *task = &graph->tasks[t];
                    if (task->kind == TASK_GRADIENT_REDUCE) task_s += prices.s[t] * task->count;
                }
            }
            assert_true(fabs(reduce_s - task_s) <= 1e-9 * reduce_s);
            done++;
        }
        arena_free(&arena);
    }
    assert_true(wanted < 60 || executed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_worked_by_hand),
        cmocka_unit_test(trust_ratios_worked_by_hand),
        cmocka_unit_test(zero_3_worked_by_hand),
        cmocka_unit_test(unlike_meshes_worked_by_hand),
        cmocka_unit_test(scripts_are_the_graph_written_out),
        cmocka_unit_test(prices_are_those_of_tasks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
