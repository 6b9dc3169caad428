#include "memory/graph_edges.h"

#include <assert.h>

// Operators that are ready, the first given on top.
struct heap {
    int *items;
    int count;
};

static void heap_push(struct heap *heap, int item)
{
    int at = heap->count++;
    for (; at > 0 && heap->items[(at - 1) / 2] > item; at = (at - 1) / 2) {
        heap->items[at] = heap->items[(at - 1) / 2];
    }
    heap->items[at] = item;
}

static int heap_pop(struct heap *heap)
{
    assert(heap->count > 0);
    int top = heap->items[0], last = heap->items[--heap->count], at = 0;
    for (int child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child]) child++;
        if (heap->items[child] >= last) break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = last;
    return top;
}

enum { NAMES_MAX = 6 };

// The edges of `cycle` lead from one operator to the one before it.
static const struct graph_fault *name_cycle(struct arena *arena, const struct memory_graph *graph,
                                            const struct graph_edges *edges, const int *cycle,
                                            int length)
{
    assert(length > 0);
    for (int i = 0; i < length; i++) {
        int tensor = edges->why[cycle[i]];
        if (tensor < 0) continue;
        int user = edges->from[cycle[i]], writer = edges->to[cycle[i]];
        return graph_fault_at(arena, false, writer,
                              "operator \"%.99s\" overwrites \"%.99s\", but has to run before "
                              "\"%.99s\", which uses it",
                              graph->operators[writer].name, graph->tensors[tensor].name,
                              graph->operators[user].name);
    }
    int first = edges->from[cycle[length - 1]];
    const char *text = arena_print(arena, "a cycle of %d operator%s: \"%.99s\"", length,
                                   length == 1 ? "" : "s", graph->operators[first].name);
    for (int i = length - 1; i >= 0; i--) {
        if (length - i == NAMES_MAX && i > 0) {
            text = arena_print(arena, "%s -> ...", text);
            i = 0;
        }
        text =
            arena_print(arena, "%s -> \"%.99s\"", text, graph->operators[edges->to[cycle[i]]].name);
    }
    return graph_fault_at(arena, false, first, "%s", text);
}

// Each operator that waits has an operator that waits before it, so going back ends in a circle.
static const struct graph_fault *find_cycle(struct arena *arena, const struct memory_graph *graph,
                                            const struct graph_edges *edges,
                                            const struct graph_into *into, const int *waits_for)
{
    int *edge_at = ARENA_NEW(arena, int, graph->operator_count + 1);
    int *visited = ARENA_NEW(arena, int, graph->operator_count);
    int at = 0, length = 0;
    while (waits_for[at] == 0) {
        at++;
    }
    while (!visited[at]) {
        visited[at] = length + 1;
        int i = into->first[at];
        while (waits_for[edges->from[into->into[i]]] == 0) {
            i++;
        }
        edge_at[length++] = into->into[i];
        at = edges->from[into->into[i]];
    }
    int start = visited[at] - 1;
    return name_cycle(arena, graph, edges, edge_at + start, length - start);
}

// Order of the operators, by step; `waits_for` keeps those that are in or behind a cycle.
static int *sorted(struct arena *arena, const struct graph_edges *edges, int operator_count,
                   int *waits_for, int *count)
{
    const struct graph_edges back = {edges->to, edges->from, edges->why, edges->count};
    struct graph_into out = graph_edges_into(arena, &back, operator_count);
    struct heap ready = {ARENA_NEW(arena, int, operator_count), 0};
    int *order = ARENA_NEW(arena, int, operator_count);
    for (int i = 0; i < edges->count; i++) {
        waits_for[edges->to[i]]++;
    }
    for (int i = 0; i < operator_count; i++) {
        if (waits_for[i] == 0) heap_push(&ready, i);
    }
    *count = 0;
    while (ready.count > 0) {
        int at = heap_pop(&ready);
        order[(*count)++] = at;
        for (int i = out.first[at]; i < out.first[at + 1]; i++) {
            int to = edges->to[out.into[i]];
            if (--waits_for[to] == 0) heap_push(&ready, to);
        }
    }
    assert(*count <= operator_count);
    return order;
}

// Indices of operators are steps from here on: all that name one follow.
static void renumber(struct arena *arena, struct memory_graph *graph, const int *order)
{
    int count = graph->operator_count;
    int *step = ARENA_NEW(arena, int, count);
    struct memory_operator *operators = ARENA_NEW(arena, struct memory_operator, count);
    for (int i = 0; i < count; i++) {
        step[order[i]] = i;
        operators[i] = graph->operators[order[i]];
    }
    for (int i = 0; i < count; i++) {
        int *after = ARENA_NEW(arena, int, operators[i].after_count);
        for (int j = 0; j < operators[i].after_count; j++) {
            after[j] = step[operators[i].after[j]];
        }
        operators[i].after = after;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        int producer = graph->tensors[i].producer;
        assert(producer < count);
        graph->tensors[i].producer = producer < 0 ? -1 : step[producer];
    }
    graph->operators = operators;
}

static bool is_sorted(const struct graph_edges *edges)
{
    for (int i = 0; i < edges->count; i++) {
        if (edges->from[i] >= edges->to[i]) return false;
    }
    return true;
}

static const struct graph_fault *sort(struct arena *arena, struct arena *scratch,
                                      struct memory_graph *graph, const struct graph_edges *edges)
{
    int count = 0;
    int *waits_for = ARENA_NEW(scratch, int, graph->operator_count);
    int *order = sorted(scratch, edges, graph->operator_count, waits_for, &count);
    if (count < graph->operator_count) {
        struct graph_into into = graph_edges_into(scratch, edges, graph->operator_count);
        return find_cycle(arena, graph, edges, &into, waits_for);
    }
    assert(count == graph->operator_count);
    assert(count == graph->operator_count && "an order of all operators");
    renumber(arena, graph, order);
    return NULL;
}

// An order that is given and holds is kept; else the first given of those that are ready runs.
const struct graph_fault *graph_sort(struct arena *arena, struct memory_graph *graph)
{
    struct arena scratch = {0};
    struct graph_edges edges = graph_edges_make(&scratch, graph);
    const struct graph_fault *fault =
        is_sorted(&edges) ? NULL : sort(arena, &scratch, graph, &edges);
    arena_free(&scratch);
    return fault;
}
