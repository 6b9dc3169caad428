#include "tests/support/test.h"

#include "memory/graph.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"

#include <stdio.h>

enum { SMALL_MAX = 12 };

// The rules of graph.h once more, as slowly as they read.

static int maker_of(const struct memory_graph *graph, int tensor)
{
    const struct memory_tensor *at = &graph->tensors[tensor];
    return at->producer >= 0 || at->shares < 0 ? at->producer : maker_of(graph, at->shares);
}

static int value_of(const struct memory_graph *graph, int tensor)
{
    const struct memory_tensor *at = &graph->tensors[tensor];
    return at->shares < 0 || at->overwrites ? tensor : value_of(graph, at->shares);
}

static int storage_of(const struct memory_graph *graph, int tensor)
{
    const struct memory_tensor *at = &graph->tensors[tensor];
    return at->shares < 0 ? tensor : storage_of(graph, at->shares);
}

static bool reads(const struct memory_graph *graph, int op, int tensor)
{
    for (int i = 0; i < graph->operators[op].input_count; i++) {
        if (graph->operators[op].inputs[i] == tensor) return true;
    }
    return false;
}

static bool has_to_run_before(const struct memory_graph *graph, int first, int then)
{
    for (int i = 0; i < graph->operators[then].after_count; i++) {
        if (graph->operators[then].after[i] == first) return true;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        if (reads(graph, then, i) && maker_of(graph, i) == first) return true;
        if (tensor->producer != then || tensor->shares < 0) continue;
        if (maker_of(graph, tensor->shares) == first) return true;
        if (!tensor->overwrites) continue;
        for (int other = 0; other < graph->tensor_count; other++) {
            if (value_of(graph, other) != value_of(graph, tensor->shares)) continue;
            if (graph->tensors[other].producer == first || reads(graph, first, other)) return true;
        }
    }
    return false;
}

static bool uses_storage(const struct memory_graph *graph, int op, int storage)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        if (storage_of(graph, i) != storage) continue;
        if (graph->tensors[i].producer == op || reads(graph, op, i)) return true;
    }
    return false;
}

// Bytes alive in step `now` of an order, buffer by buffer; -1 stands for workspaces.
static int64_t bytes_at(const struct memory_graph *graph, const int *order, int now)
{
    int64_t bytes = graph->operators[order[now]].workspace_bytes;
    for (int i = 0; i < graph->tensor_count; i++) {
        if (storage_of(graph, i) != i || graph->tensors[i].persistent) continue;
        bool is_kept = false;
        int first = graph->operator_count, last = -1;
        for (int j = 0; j < graph->tensor_count; j++) {
            is_kept = is_kept || (storage_of(graph, j) == i && graph->tensors[j].kept);
        }
        for (int step = graph->operator_count - 1; step >= 0; step--) {
            if (!uses_storage(graph, order[step], i)) continue;
            first = step;
            if (last < 0) last = step;
        }
        if (maker_of(graph, i) < 0) first = 0;
        if (last < first) last = first;
        if (is_kept) last = graph->operator_count - 1;
        if (first <= now && now <= last) bytes += graph->tensors[i].bytes;
    }
    return bytes;
}

static void check_neighbours(const struct memory_graph *graph, const struct memory_problem *problem)
{
    int at = 0, back = 0;
    for (int i = 0; i < graph->operator_count; i++) {
        assert_int_equal(problem->first_successor[i], at);
        assert_int_equal(problem->first_predecessor[i], back);
        for (int j = 0; j < graph->operator_count; j++) {
            if (i != j && has_to_run_before(graph, i, j)) {
                assert_true(j > i);
                assert_int_equal(problem->successors[at++], j);
            }
            if (i != j && has_to_run_before(graph, j, i)) {
                assert_int_equal(problem->predecessors[back++], j);
            }
        }
    }
    assert_int_equal(problem->first_successor[graph->operator_count], at);
    assert_int_equal(problem->first_predecessor[graph->operator_count], back);
}

static void check_touched(const struct memory_graph *graph, const struct memory_problem *problem)
{
    int at = 0;
    for (int i = 0; i < graph->operator_count; i++) {
        assert_int_equal(problem->first_touched[i], at);
        for (int b = 0; b < problem->buffer_count; b++) {
            int tensor = problem->buffers[b].tensor;
            bool is_touched =
                tensor < 0 ? problem->buffers[b].producer == i : uses_storage(graph, i, tensor);
            if (is_touched) assert_int_equal(problem->touched[at++], b);
        }
    }
    assert_int_equal(problem->first_touched[graph->operator_count], at);
}

// Any order that the edges allow.
static void draw_order(struct draw *draw, const struct memory_problem *problem, int *order)
{
    bool done[SMALL_MAX] = {0};
    for (int step = 0; step < problem->operator_count;) {
        int op = draw_int(draw, 0, problem->operator_count - 1);
        bool is_ready = !done[op];
        for (int i = problem->first_predecessor[op]; i < problem->first_predecessor[op + 1]; i++) {
            is_ready = is_ready && done[problem->predecessors[i]];
        }
        if (!is_ready) continue;
        done[op] = true;
        order[step++] = op;
    }
}

static void check_lifetimes(struct arena *arena, struct draw *draw,
                            const struct memory_graph *graph, const struct memory_problem *problem)
{
    int order[SMALL_MAX];
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    draw_order(draw, problem, order);
    int64_t peak = memory_lifetimes(arena, problem, order, birth, death), slow_peak = 0;
    for (int step = 0; step < graph->operator_count; step++) {
        int64_t bytes = 0, slow = bytes_at(graph, order, step);
        for (int i = 0; i < problem->buffer_count; i++) {
            if (birth[i] <= step && step < death[i]) bytes += problem->buffers[i].bytes;
        }
        assert_int_equal(bytes, slow);
        if (slow > slow_peak) slow_peak = slow;
    }
    assert_int_equal(peak, slow_peak);
}

static void random_graphs_become_the_problem_that_the_rules_say(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("random graphs", 1);
    for (int round = 0; round < 600; round++) {
        struct arena_mark mark = arena_mark(arena);
        const struct memory_graph *graph =
            graph_random(arena, &draw, draw_int(&draw, 0, SMALL_MAX));
        const struct memory_problem *problem = memory_problem_make(arena, graph, 1);
        check_neighbours(graph, problem);
        check_touched(graph, problem);
        check_lifetimes(arena, &draw, graph, problem);
        arena_reset(arena, mark);
    }
}

// Operators in any order come back in one that the edges allow; in program order they stay.
static void shuffled_operators_are_sorted(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("shuffled graphs", 2);
    for (int round = 0; round < 200; round++) {
        struct arena_mark mark = arena_mark(arena);
        struct memory_graph *graph = graph_random(arena, &draw, draw_int(&draw, 1, SMALL_MAX));
        int count = graph->operator_count, place[SMALL_MAX];
        struct memory_operator shuffled[SMALL_MAX];
        for (int i = 0; i < count; i++) {
            int j = draw_int(&draw, 0, i);
            place[i] = place[j];
            place[j] = i;
        }
        for (int i = 0; i < count; i++) {
            shuffled[i] = graph->operators[place[i]];
            int *after = ARENA_NEW(arena, int, shuffled[i].after_count);
            for (int j = 0; j < shuffled[i].after_count; j++) {
                while (place[after[j]] != shuffled[i].after[j]) {
                    after[j]++;
                }
            }
            shuffled[i].after = after;
        }
        struct memory_graph again = *graph;
        again.operators = shuffled;
        struct err err = {0};
        assert_true(memory_graph_finish(arena, &again, "again", &err));
        check_neighbours(&again, memory_problem_make(arena, &again, 1));
        for (int i = 0; i < count; i++) {
            shuffled[i] = again.operators[i];
        }
        assert_true(memory_graph_finish(arena, &again, "again", &err));
        for (int i = 0; i < count; i++) {
            assert_string_equal(again.operators[i].name, shuffled[i].name);
        }
        arena_reset(arena, mark);
    }
}

static void the_best_order_of_the_example_needs_70_percent(void **state)
{
    struct arena *arena = *state;
    const struct memory_problem *problem = memory_problem_make(arena, graph_four(arena), 1);
    int birth[4], death[4];
    assert_int_equal(memory_lifetimes(arena, problem, (int[]){0, 1, 2, 3}, birth, death), 100);
    assert_int_equal(memory_lifetimes(arena, problem, (int[]){0, 2, 1, 3}, birth, death), 70);
    assert_int_equal(birth[1], 0);
    assert_int_equal(death[1], 2);
}

static void sizes_are_rounded_up_and_persistent_ones_stay_apart(void **state)
{
    struct arena *arena = *state;
    const struct memory_graph *graph = graph_gpt(arena, 2, 1, 64);
    const struct memory_problem *exact = memory_problem_make(arena, graph, 1);
    const struct memory_problem *aligned = memory_problem_make(arena, graph, 512);
    assert_int_equal(exact->buffer_count, aligned->buffer_count);
    for (int i = 0; i < exact->buffer_count; i++) {
        int64_t more_bytes = aligned->buffers[i].bytes - exact->buffers[i].bytes;
        assert_int_equal(aligned->buffers[i].bytes % 512, 0);
        assert_in_range(more_bytes, 0, 511);
    }
    // Weights and two moments each, none of them twice although all are updated in place.
    int64_t elements = 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64 + (50257 + 1024) * 64;
    assert_int_equal(exact->persistent_bytes, 3 * 4 * elements);
}

// A tensor of an operator a with one input and one output, a chain as long as wanted.
static struct net chain(struct arena *arena, int count)
{
    struct net net = {.arena = arena};
    int last = net_tensor(&net, "t", 8);
    for (int i = 0; i < count; i++) {
        int next = net_tensor(&net, "t", 8);
        net_operator(&net, "op", &last, 1, &next, 1);
        last = next;
    }
    return net;
}

static void expect_fault(struct arena *arena, struct net *net, const char *text)
{
    struct err err = {0};
    struct memory_graph graph = {"bad", net->operators, net->operator_count, net->tensors,
                                 net->tensor_count};
    assert_false(memory_graph_finish(arena, &graph, "bad.json", &err));
    assert_string_equal(err.text, text);
    assert_int_equal(err.kind, ERR_INPUT);
}

static void wrong_operators_are_named(void **state)
{
    struct arena *arena = *state;
    struct net net = chain(arena, 3);
    net.operators[0].inputs = (int[]){3};
    expect_fault(arena, &net,
                 "bad.json: a cycle of 3 operators: \"op_0\" -> \"op_1\" -> \"op_2\" -> \"op_0\"");
    net = chain(arena, 2);
    net.operators[1].inputs = (int[]){2};
    expect_fault(arena, &net, "bad.json: a cycle of 1 operator: \"op_1\" -> \"op_1\"");
    net = chain(arena, 9);
    net.operators[0].after = (int[]){8};
    net.operators[0].after_count = 1;
    expect_fault(arena, &net,
                 "bad.json: a cycle of 9 operators: \"op_0\" -> \"op_1\" -> \"op_2\" -> \"op_3\" "
                 "-> \"op_4\" -> \"op_5\" -> ... -> \"op_0\"");
    net = chain(arena, 2);
    net.operators[1].outputs = (int[]){1};
    expect_fault(arena, &net, "bad.json: tensor \"t.1\" has two producers, \"op_0\" and \"op_1\"");
    net = chain(arena, 2);
    net.operators[1].inputs = (int[]){1, 1};
    net.operators[1].input_count = 2;
    expect_fault(arena, &net, "bad.json: operator \"op_1\" has \"t.1\" twice");
    net.operators[1].inputs = (int[]){0, 3};
    expect_fault(arena, &net, "bad.json: operator \"op_1\" uses tensor 3, there are 3");
    net = chain(arena, 2);
    net.operators[1].after = (int[]){2};
    net.operators[1].after_count = 1;
    expect_fault(arena, &net, "bad.json: operator \"op_1\" is after operator 2, there are 2");
    net = chain(arena, 2);
    net.operators[0].workspace_bytes = -1;
    expect_fault(arena, &net, "bad.json: operator \"op_0\" has a workspace of -1 bytes");
    net = chain(arena, 2);
    net.operators[0].seconds = -1;
    expect_fault(arena, &net, "bad.json: operator \"op_0\" takes -1 seconds");
}

static void wrong_sizes_are_named(void **state)
{
    struct arena *arena = *state;
    struct net net = chain(arena, 2);
    net.tensors[1].bytes = -4;
    expect_fault(arena, &net, "bad.json: tensor \"t.1\" has -4 bytes");
    net = chain(arena, 2);
    net.tensors[1].bytes = net.tensors[2].bytes = INT64_MAX / 6;
    expect_fault(arena, &net,
                 "bad.json: the sizes up to \"t.2\" add up to more than 2305843009213693951");
    net = chain(arena, 2);
    net.operators[1].workspace_bytes = INT64_MAX;
    expect_fault(arena, &net,
                 "bad.json: the sizes up to the workspace of \"op_1\" add up to more "
                 "than 2305843009213693951");
}

static void wrong_sharing_is_named(void **state)
{
    struct arena *arena = *state;
    struct net net = chain(arena, 3);
    net.tensors[1].shares = 2;
    net.tensors[2].shares = 1;
    expect_fault(arena, &net, "bad.json: the sharing of tensor \"t.1\" goes in a circle");
    net = chain(arena, 3);
    net.tensors[2].shares = 1;
    net.tensors[2].bytes = 9;
    expect_fault(arena, &net,
                 "bad.json: tensor \"t.2\" of 9 bytes shares the memory of \"t.1\", "
                 "which has 8");
    net = chain(arena, 3);
    net.tensors[2].shares = 1;
    net.tensors[1].persistent = true;
    expect_fault(arena, &net,
                 "bad.json: tensor \"t.2\" shares the memory of \"t.1\", but only one "
                 "of them is persistent");
    net = chain(arena, 3);
    net.tensors[1].overwrites = true;
    expect_fault(arena, &net, "bad.json: tensor \"t.1\" overwrites nothing");
    net = chain(arena, 3);
    net.tensors[1].shares = 4;
    expect_fault(arena, &net, "bad.json: tensor \"t.1\" shares tensor 4, there are 4");
    net = chain(arena, 3);
    net.tensors[0].shares = 3;
    net.tensors[0].overwrites = true;
    expect_fault(arena, &net,
                 "bad.json: tensor \"t.0\" overwrites \"t.3\", but no operator makes it");
    net = chain(arena, 3);
    net.tensors[2].shares = net.tensors[3].shares = 1;
    net.tensors[2].overwrites = net.tensors[3].overwrites = true;
    expect_fault(arena, &net, "bad.json: tensors \"t.2\" and \"t.3\" overwrite the same");
    // The result of the second is read by the third, which also reads what it overwrote.
    net = chain(arena, 3);
    net.tensors[2].shares = 1;
    net.tensors[2].overwrites = true;
    net.operators[2].inputs = (int[]){1, 2};
    net.operators[2].input_count = 2;
    expect_fault(arena, &net,
                 "bad.json: operator \"op_1\" overwrites \"t.1\", but has to run "
                 "before \"op_2\", which uses it");
}

static void training_graphs_have_the_operators_of_the_models(void **state)
{
    struct arena *arena = *state;
    int per_layer =
        graph_gpt(arena, 5, 1, 768)->operator_count - graph_gpt(arena, 4, 1, 768)->operator_count;
    enum { FORWARD = 29, GRADIENTS = 39, PARAMETERS = 12, ADAM = 6 };
    assert_int_equal(per_layer, FORWARD + GRADIENTS + ADAM * PARAMETERS);
    assert_true(graph_resnet(arena, 16, 1)->operator_count > 1000);
    assert_true(graph_inception(arena, 12, 1)->operator_count > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_become_the_problem_that_the_rules_say),
        cmocka_unit_test(shuffled_operators_are_sorted),
        cmocka_unit_test(the_best_order_of_the_example_needs_70_percent),
        cmocka_unit_test(sizes_are_rounded_up_and_persistent_ones_stay_apart),
        cmocka_unit_test(wrong_operators_are_named),
        cmocka_unit_test(wrong_sizes_are_named),
        cmocka_unit_test(wrong_sharing_is_named),
        cmocka_unit_test(training_graphs_have_the_operators_of_the_models),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
